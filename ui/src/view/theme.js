// What the person likes, kept in the browser. Preferences only: nothing here is a secret.

/** @typedef {'system'|'light'|'dark'} Theme */

const THEMES = ['system', 'light', 'dark'];

/** A preference; the default where nothing is kept or the browser keeps nothing. @param {string} name @param {string} otherwise */
export function preference(name, otherwise) {
  try {
    return localStorage.getItem(`salon.${name}`) ?? otherwise;
  } catch {
    return otherwise;
  }
}

/** @param {string} name @param {string} value */
export function prefer(name, value) {
  try {
    localStorage.setItem(`salon.${name}`, value);
  } catch {
    // A browser that keeps nothing forgets this with the page.
  }
}

/** @returns {Theme} */
export function theme() {
  const kept = preference('theme', 'system');
  return /** @type {Theme} */ (THEMES.includes(kept) ? kept : 'system');
}

/** @param {Theme} [chosen] */
export function applyTheme(chosen) {
  if (chosen) prefer('theme', chosen);
  const now = chosen ?? theme();
  if (now === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = now;
}
