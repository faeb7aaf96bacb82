/** How something that a stranger answered is best and safely shown. Pure. */

import { stringifyExact } from './exact.js';
import { isObject, RawJson } from './raw.js';

/** @typedef {{columns: string[], rows: unknown[][]}} Table a cell is undefined where a row has nothing under that name */

const MAX_COLUMNS = 16;

/** @param {unknown} value @returns {value is Record<string, unknown>} */
const isRecord = (value) => isObject(value) && !(value instanceof RawJson);

/**
 * Rows of a list of objects, or the members of one object of plain values.
 * @param {unknown} value
 * @returns {Table | undefined} undefined where a tree is better
 */
export function tableOf(value) {
  if (Array.isArray(value)) return listTable(value);
  if (!isRecord(value)) return undefined;
  const entries = Object.entries(value);
  if (entries.length === 0 || entries.some(([, member]) => !isPlain(member))) return undefined;
  return { columns: ['name', 'value'], rows: entries };
}

/**
 * The tables that an object consists of: its plain members, then each of its lists.
 * @param {unknown} value
 * @returns {{name: string, table: Table}[] | undefined} undefined where a tree is better
 */
export function tablesOf(value) {
  const whole = tableOf(value);
  if (whole) return [{ name: '', table: whole }];
  if (!isRecord(value)) return undefined;
  const plain = tableOf(Object.fromEntries(Object.entries(value).filter(([, member]) => isPlain(member))));
  const lists = Object.entries(value).filter(([, member]) => !isPlain(member))
    .map(([name, member]) => ({ name, table: Array.isArray(member) ? listTable(member) : undefined }));
  const good = lists.filter((one) => one.table !== undefined);
  if (good.length < lists.length || lists.length === 0) return undefined;
  return /** @type {{name: string, table: Table}[]} */ ([...(plain ? [{ name: '', table: plain }] : []), ...good]);
}

/** @param {unknown[]} list @returns {Table | undefined} */
function listTable(list) {
  if (list.length === 0 || !list.every(isRecord)) return undefined;
  const columns = [...new Set(list.flatMap((row) => Object.keys(row)))];
  if (columns.length === 0 || columns.length > MAX_COLUMNS) return undefined;
  return { columns, rows: list.map((row) => columns.map((column) => (Object.hasOwn(row, column) ? row[column] : undefined))) };
}

/** @param {unknown} value @returns {boolean} whether it fits into one cell */
function isPlain(value) {
  return !isRecord(value) && !Array.isArray(value);
}

/**
 * @param {unknown} value
 * @returns {string} what stands in a cell
 */
export function cellText(value) {
  if (value === undefined) return '';
  return typeof value === 'string' ? value : stringifyExact(value);
}

/**
 * @param {string} text
 * @returns {boolean} whether somebody wrote Markdown, rather than text that would suffer from being taken for it
 */
export function looksLikeMarkdown(text) {
  return /^(#{1,6} \S|```|[-*] \S.*\n[-*] \S|1\. \S.*\n2\. \S|> \S|\|.*\|\s*\n\|[\s:|-]+\|)/m.test(text.slice(0, 20_000))
    || /\*\*\S[^*\n]*\*\*|\[[^[\]\n]{1,200}\]\(https?:\S/.test(text.slice(0, 20_000));
}

/** What decoders of pictures take. Not SVG: it is a program for drawing, and a short one can keep the browser busy for ever. */
const PICTURES = new Set(['png', 'jpeg', 'jpg', 'gif', 'webp', 'avif', 'bmp']);

/**
 * @param {'image'|'audio'} type
 * @param {unknown} mime
 * @param {unknown} data base64
 * @returns {string | undefined} an address that shows it and can do nothing else
 */
export function mediaAddress(type, mime, data) {
  if (typeof mime !== 'string' || typeof data !== 'string') return undefined;
  const [, family, name] = /^(image|audio)\/([a-z0-9.+-]{1,60})(?:;.*)?$/i.exec(mime) ?? [];
  if (type === 'image' && !PICTURES.has(name?.toLowerCase() ?? '')) return undefined;
  const pure = data.replace(/\s+/g, '');
  if (family?.toLowerCase() !== type || !name || pure === '' || !/^[A-Za-z0-9+/_-]*={0,2}$/.test(pure)) return undefined;
  return `data:${type}/${name.toLowerCase()};base64,${pure.replaceAll('-', '+').replaceAll('_', '/')}`;
}
