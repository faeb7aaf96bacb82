// What a reload of this tab must not lose: half answers, what is being written, which rooms are entered. Kept in the tab's own storage, which ends with it.

const PREFIX = 'salon.kept.';
/** Longer than this nothing is kept: the storage is small, and shared by all of the page. */
const MAX_CHARS = 100_000;

/** @param {string} key @returns {any} undefined where nothing is kept */
export function kept(key) {
  try {
    const text = sessionStorage.getItem(PREFIX + key);
    return text === null ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** @param {string} key @param {unknown} value JSON; undefined: it is kept no more */
export function keep(key, value) {
  try {
    const text = value === undefined ? '' : JSON.stringify(value);
    if (value === undefined || text.length > MAX_CHARS) sessionStorage.removeItem(PREFIX + key);
    else sessionStorage.setItem(PREFIX + key, text);
  } catch {
    // A browser that keeps nothing loses it with a reload, as before.
  }
}

/** The person has signed out: nothing of theirs stays. */
export function forgetAll() {
  try {
    for (const key of Object.keys(sessionStorage)) if (key.startsWith(PREFIX)) sessionStorage.removeItem(key);
  } catch {
    // Nothing was kept.
  }
}
