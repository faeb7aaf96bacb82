// Small things about text and time, for every view. Pure.

/** How many hues there are for names. */
export const HUES = 24;

/** A participant's hue, for `data-hue`: it follows from the id alone, so it is the same for everybody and after a reload. @param {string} id */
export function hueOf(id) {
  let sum = 2166136261;
  for (let at = 0; at < id.length; at += 1) sum = Math.imul(sum ^ id.charCodeAt(at), 16777619);
  // Neighbouring ids are to be far apart.
  sum = Math.imul(sum ^ (sum >>> 15), 0x2c1b3c6d);
  sum = Math.imul(sum ^ (sum >>> 12), 0x297a2d39);
  return ((sum ^ (sum >>> 15)) >>> 0) % HUES;
}

/** One or two letters that stand for somebody. @param {string} name */
export function initials(name) {
  const words = name.split(/[^\p{L}\p{N}]+/u).filter(Boolean);
  const letters = words.length > 1 ? [words[0], words[words.length - 1]] : words;
  const first = letters.map((word) => [...word][0]).join('');
  return (first || '?').toUpperCase();
}

/** The text, cut after so many characters. What strangers say may be none: then there is nothing to show. @param {string} text @param {number} most */
export function clip(text, most) {
  if (typeof text !== 'string') return '';
  if (text.length <= most) return text;
  // Not in the middle of a surrogate pair.
  const end = /[\uD800-\uDBFF]/.test(text[most - 1]) ? most - 1 : most;
  return `${text.slice(0, end)}…`;
}

/** How much of a text is shown before somebody asks for more; a long one must neither hold up the page nor fill the screen. */
const MAX_SHOWN_CHARS = 6000;
const MAX_SHOWN_LINES = 60;

/** The beginning of a long text; the text where it is not long. @param {string} text */
export function beginning(text) {
  let end = -1;
  for (let line = 0; line < MAX_SHOWN_LINES; line += 1) {
    end = text.indexOf('\n', end + 1);
    if (end < 0) break;
  }
  const lines = end < 0 ? text : text.slice(0, end);
  return lines.length > MAX_SHOWN_CHARS ? lines.slice(0, MAX_SHOWN_CHARS) : lines;
}

/** Whether a text mentions a participant: `@` and its id or name. A word that happens to be somebody's name is none. @param {string} text @param {string} id */
export function mentions(text, id) {
  if (!id) return false;
  const [within, word] = [text.toLowerCase(), `@${id.toLowerCase()}`];
  const inside = (/** @type {string|undefined} */ c) => c !== undefined && /[\p{L}\p{N}_-]/u.test(c);
  for (let at = within.indexOf(word); at >= 0; at = within.indexOf(word, at + 1)) {
    if (!inside(within[at - 1]) && !inside(within[at + word.length])) return true;
  }
  return false;
}

/** Hours and minutes as clocks show them here. @param {number} at */
export function clock(at) {
  return hours.format(at);
}

/** The same with seconds. @param {number} at */
export function clockSeconds(at) {
  return seconds.format(at);
}

/** Date and time in full, for tooltips. @param {number} at */
export function moment(at) {
  return moments.format(at);
}

/** Year, month and day here: two moments with the same one belong under one heading. @param {number} at */
export function dayKey(at) {
  const date = new Date(at);
  return `${date.getFullYear()}-${date.getMonth() + 1}-${date.getDate()}`;
}

/** A day as a heading. @param {number} at @param {number} now */
export function dayName(at, now) {
  if (dayKey(at) === dayKey(now)) return 'Today';
  const yesterday = new Date(now);
  yesterday.setDate(yesterday.getDate() - 1);
  if (dayKey(at) === dayKey(yesterday.getTime())) return 'Yesterday';
  return days.format(at);
}

/** How long something took: `12 ms`, `3.4 s`, `2 min 5 s`. @param {number} ms */
export function duration(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(ms < 9950 ? 1 : 0)} s`;
  const total = Math.round(ms / 1000);
  const [h, m, s] = [Math.floor(total / 3600), Math.floor(total / 60) % 60, total % 60];
  return h > 0 ? `${h} h ${m} min` : `${m} min ${s} s`;
}

/** How long ago something was, roughly. @param {number} at @param {number} now */
export function ago(at, now) {
  const minutes = Math.floor((now - at) / 60_000);
  if (minutes < 1) return 'just now';
  if (minutes < 60) return `${minutes} min ago`;
  return minutes < 24 * 60 ? `${Math.floor(minutes / 60)} h ago` : `on ${dates.format(at)}`;
}

/** `1 call`, `2 calls`. @param {number} count @param {string} one @param {string} [many] */
export function count(count, one, many = `${one}s`) {
  return `${count} ${count === 1 ? one : many}`;
}

/** `a`, `a and b`, `a, b and 3 others`. @param {string[]} list @param {number} [most] how many are named */
export function listed(list, most = 3) {
  if (list.length <= 1) return list.join('');
  if (list.length <= most) return `${list.slice(0, -1).join(', ')} and ${list[list.length - 1]}`;
  const rest = list.length - most + 1;
  return `${list.slice(0, most - 1).join(', ')} and ${rest} others`;
}

const hours = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
const seconds = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23',
});
const moments = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium', hourCycle: 'h23' });
const dates = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' });
const days = new Intl.DateTimeFormat(undefined, { weekday: 'long', day: 'numeric', month: 'long', year: 'numeric' });
