// Commands of `salon` to paste into a shell. Pure.

/** A word of a shell: in single quotes where that is needed. @param {string} word */
const quoted = (word) => (/^[A-Za-z0-9_./:=@%+,-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);

/** @param {string[]} words @returns {string} */
export function command(...words) {
  return ['salon', ...words].map(quoted).join(' ');
}
