// Small things about text and time, for every view. Pure.

/** How many hues there are for names. */
const HUES = 8;
/** How many participants' hues are remembered. */
const MAX_HUES = 4096;
/** @type {Map<string, number>} */
const hues = new Map();

/**
 * A participant's hue, 0 to 7, for `data-hue`: the same after a reload, unless somebody seen before has it and another is free.
 * @param {string} id
 */
export function hueOf(id) {
  const known = hues.get(id);
  if (known !== undefined) return known;
  let sum = 7;
  for (let at = 0; at < id.length; at += 1) sum = (sum * 31 + id.charCodeAt(at)) >>> 0;
  const wanted = ((sum ^ (sum >>> 15)) >>> 0) % HUES;
  if (hues.size >= MAX_HUES) return wanted;
  const used = Array(HUES).fill(0);
  for (const hue of hues.values()) used[hue] += 1;
  const fewest = Math.min(...used);
  let hue = wanted;
  while (used[hue] > fewest) hue = (hue + 1) % HUES;
  hues.set(id, hue);
  return hue;
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

/** Whether a text names a participant as a word of its own. @param {string} text @param {string} id */
export function names(text, id) {
  if (!id) return false;
  const [within, word] = [text.toLowerCase(), id.toLowerCase()];
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
