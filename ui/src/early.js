// What a visit to a room needs of the gateway first, a ticket and who is signed in, asked for at once. This module imports nothing, so it runs while the
// others are still being loaded.

/** @typedef {{ticket: string, expires_in: number, session: import('./model/types.js').SessionInfo}} Arrival */

/**
 * What was asked for, and how the next visit knows that it is worth asking.
 * @typedef {object} Early
 * @property {string|null} topic the room that it was asked for; null: nothing was
 * @property {Promise<Arrival|null>} answer null where there is none, or a refusal: the page finds out why by itself
 * @property {(isSignedIn: boolean) => void} remember
 */

/** Whether somebody was signed in here. No secret, and no proof: the cookie is both. */
const KEY = 'salon.signed-in';

/** @returns {string|null} */
function arrivingAt() {
  try {
    const name = /^#\/room\/([^/?]+)/.exec(location.hash)?.[1];
    return name === undefined || localStorage.getItem(KEY) === null ? null : decodeURIComponent(name);
  } catch {
    return null;
  }
}

/** @param {string} topic @returns {Promise<Arrival|null>} */
async function ask(topic) {
  try {
    const answer = await fetch('v0/tickets', {
      method: 'POST', credentials: 'same-origin', cache: 'no-store', redirect: 'error',
      headers: { 'content-type': 'application/json' }, body: JSON.stringify({ topic }),
    });
    const told = answer.ok ? await answer.json() : null;
    return told?.session ? told : null;
  } catch {
    return null;
  }
}

const topic = arrivingAt();

/** @type {Early} */
export const early = {
  topic, answer: topic === null ? Promise.resolve(null) : ask(topic),
  remember(isSignedIn) {
    try {
      if (isSignedIn) localStorage.setItem(KEY, 'yes');
      else localStorage.removeItem(KEY);
    } catch {
      // A browser that keeps nothing asks one thing after the other.
    }
  },
};
