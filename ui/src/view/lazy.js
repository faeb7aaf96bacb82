import { html, useEffect, useState } from '../../vendor/ui.js';

/** @type {Map<string, Promise<void>>} style sheets that were asked for */
const sheets = new Map();

/** Loads a style sheet once. @param {string} name of a file in `css` @returns {Promise<void>} */
function loadSheet(name) {
  const known = sheets.get(name);
  if (known) return known;
  const link = Object.assign(document.createElement('link'), { rel: 'stylesheet', href: new URL(`../../css/${name}.css`, import.meta.url).href });
  const loading = new Promise((resolve, reject) => {
    link.onload = () => resolve(undefined);
    link.onerror = () => {
      sheets.delete(name);
      link.remove();
      reject(new Error(`${name}.css could not be loaded`));
    };
  });
  sheets.set(name, loading);
  document.head.append(link);
  return loading;
}

/**
 * A component whose module, and style sheet, are loaded when it is first shown: what most visits do not need does not delay any.
 * @template {object} P
 * @param {() => Promise<(props: P) => any>} load @param {{sheet?: string, quiet?: boolean}} [how] quiet: nothing stands in its place meanwhile
 * @returns {(props: P) => any}
 */
export function lazy(load, { sheet, quiet = false } = {}) {
  /** @type {((props: P) => any)|null} */
  let loaded = null;
  return function Lazy(props) {
    const [attempt, setAttempt] = useState(0);
    const [state, setState] = useState(/** @type {'loading'|'there'|'failed'} */ (loaded ? 'there' : 'loading'));
    useEffect(() => {
      if (loaded) return;
      setState('loading');
      Promise.all([load(), sheet === undefined ? undefined : loadSheet(sheet)]).then(([component]) => {
        loaded = component;
        setState('there');
      }, () => setState('failed'));
    }, [attempt]);
    if (loaded) return html`<${loaded} ...${props} />`;
    if (state === 'loading') return quiet ? null : html`<p class="empty" role="status">Loading…</p>`;
    return html`
      <p class="empty" role="alert">This part of the page could not be loaded.
        <button type="button" onClick=${() => setAttempt(attempt + 1)}>Try again</button></p>`;
  };
}
