import { html, useEffect, useState } from '../../vendor/ui.js';

/**
 * A component whose module is loaded when it is first shown: what most visits do not need does not delay any.
 * @template {object} P
 * @param {() => Promise<(props: P) => any>} load
 * @returns {(props: P) => any}
 */
export function lazy(load) {
  /** @type {((props: P) => any)|null} */
  let loaded = null;
  return function Lazy(props) {
    const [attempt, setAttempt] = useState(0);
    const [state, setState] = useState(/** @type {'loading'|'there'|'failed'} */ (loaded ? 'there' : 'loading'));
    useEffect(() => {
      if (loaded) return;
      setState('loading');
      load().then((component) => {
        loaded = component;
        setState('there');
      }, () => setState('failed'));
    }, [attempt]);
    if (loaded) return html`<${loaded} ...${props} />`;
    if (state === 'loading') return html`<p class="empty" role="status">Loading…</p>`;
    return html`
      <p class="empty" role="alert">This part of the page could not be loaded.
        <button type="button" onClick=${() => setAttempt(attempt + 1)}>Try again</button></p>`;
  };
}
