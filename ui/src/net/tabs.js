// What the page says to its other tabs in the same browser: who is signed in. The cookie is one for all of them.

/** @typedef {{tell: (who: string|null) => void, close: () => void}} Tabs */

/**
 * @param {(who: string|null) => void} hear called when another tab has signed somebody in, or out (null)
 * @returns {Tabs}
 */
export function openTabs(hear) {
  // Gateways below different paths of one host have different cookies, and nothing to say to each other.
  const channel = new BroadcastChannel(`salon ${new URL('.', document.baseURI).href}`);
  channel.onmessage = ({ data }) => {
    if (data?.signedIn === null || typeof data?.signedIn === 'string') hear(data.signedIn);
  };
  return { tell: (who) => channel.postMessage({ signedIn: who }), close: () => channel.close() };
}
