// Code in colours: which parts of it are comments, texts, numbers and words of the language. It is no parser of any language, and every pattern is
// linear in what strangers write. Pure.

/** @typedef {'comment'|'string'|'number'|'keyword'|''} Token */

/** Longer code stays as it is. */
const MAX_CHARS = 20_000;

// A text in double quotes or backticks that nobody closes ends with its line or the code. A single quote that nobody closes is an apostrophe.
const DOUBLE = String.raw`"(?:\\.|[^"\\\n])*"?`;
const TEXTS = String.raw`${DOUBLE}|'(?:\\.|[^'\\\n]){0,1000}'`;
const REST = String.raw`\b\d[\w.]*|[A-Za-z_$][\w$]*`;
const SLASH_COMMENTS = String.raw`//[^\n]*|/\*[^]*?(?:\*/|$)`;
const SLASHES = new RegExp(String.raw`${SLASH_COMMENTS}|${TEXTS}|${'`'}(?:\\.|[^${'`'}\\])*${'`'}?|${REST}`, 'g');
/** Single quotes are around one character, or before a lifetime. */
const RUST = new RegExp(String.raw`${SLASH_COMMENTS}|${DOUBLE}|'(?:\\[^\n]{1,9}?|[^'\\\n])'|${REST}`, 'g');
const HASHES = new RegExp(String.raw`#[^\n]*|"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|${TEXTS}|${REST}`, 'g');
const DASHES = new RegExp(String.raw`--[^\n]*|${TEXTS}|${REST}`, 'g');

const words = (/** @type {string} */ list) => new Set(list.split(' '));
const SLASH_WORDS = words('abstract as async await bool break case catch char class const continue crate default defer delete do double dyn else enum export '
  + 'extends false final finally float fn for from func function go if impl implements import in instanceof int interface let long loop match mod move mut new '
  + 'nil null of package private protected pub public range ref return select self Self short static struct super switch template this throw trait true try '
  + 'type typeof undefined unsafe unsigned use using var virtual void where while yield');
const HASH_WORDS = words('and as assert async await break case class continue def del do done elif else end esac except export False fi finally for from '
  + 'function global if import in is lambda local match module nil None nonlocal not or pass raise require rescue return self set then True true false null try '
  + 'unless until while with yield');
const DASH_WORDS = words('all alter and as asc begin between by case commit create delete desc distinct drop else end exists false from full group having in '
  + 'index inner insert into is join left like limit not null offset on or order outer primary references right rollback select set table then true union '
  + 'unique update values view when where with');

const SLASH = { pattern: SLASHES, known: SLASH_WORDS };
const HASH = { pattern: HASHES, known: HASH_WORDS };
const LANGUAGES = new Map([
  ...['js', 'javascript', 'mjs', 'jsx', 'ts', 'typescript', 'tsx', 'json', 'json5', 'jsonc', 'c', 'h', 'cpp', 'c++', 'cc', 'cs', 'csharp', 'java', 'kotlin', 'kt', 'go',
    'swift', 'php', 'dart', 'scala', 'css', 'scss', 'proto'].map((name) => /** @type {const} */ ([name, SLASH])),
  ...['rust', 'rs'].map((name) => /** @type {const} */ ([name, { pattern: RUST, known: SLASH_WORDS }])),
  ...['py', 'python', 'sh', 'bash', 'zsh', 'shell', 'rb', 'ruby', 'yaml', 'yml', 'toml', 'ini', 'make', 'makefile', 'dockerfile', 'r', 'perl', 'elixir', 'nix']
    .map((name) => /** @type {const} */ ([name, HASH])),
  ...['sql', 'lua', 'haskell'].map((name) => /** @type {const} */ ([name, { pattern: DASHES, known: DASH_WORDS }])),
]);

/**
 * The code in parts, which make it up again one after the other; one part where the language is not known.
 * @param {string} text @param {string} lang as it stands behind the fence
 * @returns {{token: Token, text: string}[]}
 */
export function highlight(text, lang) {
  const language = LANGUAGES.get((/^[^\s,{]*/.exec(lang)?.[0] ?? '').toLowerCase());
  if (!language || text.length > MAX_CHARS) return [{ token: '', text }];
  /** @type {{token: Token, text: string}[]} */
  const parts = [];
  const add = (/** @type {Token} */ token, /** @type {string} */ part) => {
    const last = parts[parts.length - 1];
    if (last?.token === token) last.text += part;
    else if (part !== '') parts.push({ token, text: part });
  };
  let end = 0;
  for (const found of text.matchAll(language.pattern)) {
    add('', text.slice(end, found.index));
    add(tokenOf(found[0], language), found[0]);
    end = found.index + found[0].length;
  }
  add('', text.slice(end));
  return parts;
}

/** @param {string} found @param {{pattern: RegExp, known: Set<string>}} language @returns {Token} */
function tokenOf(found, { pattern, known }) {
  if (/^["'`]/.test(found)) return 'string';
  if (/^\d/.test(found)) return 'number';
  if (/^(?:\/\/|\/\*|#|--)/.test(found)) return 'comment';
  return known.has(pattern === DASHES ? found.toLowerCase() : found) ? 'keyword' : '';
}
