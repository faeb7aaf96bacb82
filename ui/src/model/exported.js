// A transcript as one HTML file that needs nothing else, and as JSON. Pure: text in, text out. Whatever participants wrote is escaped, and the
// file's own policy lets it run no script and load nothing.

import { presenceText, handshakeText } from './folded.js';
import { chatText } from './envelope.js';
import { argumentsLine, outcomeLine, titleOf } from './reading.js';
import { clockSeconds, dayName, duration, moment } from './text.js';
import { noticed } from './calls.js';

/** @typedef {import('./types.js').Item} Item */
/** @typedef {import('./types.js').Call} Call */
/** @typedef {import('./types.js').Envelope} Envelope */
/** @typedef {import('./summary.js').Summary} Summary */
/** @typedef {{topic: string, items: Item[], summary: Summary, name: (id: string) => string, now: number}} Exported */

const STYLE = `:root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem}
h1{margin:0}h2{font-size:1rem;margin:1.5rem 0 .5rem}.faint{opacity:.65;font-size:.85em}.row{margin:.5rem 0;padding:.25rem .5rem;border-left:3px solid #8884}
.call{border-color:#2b8a3e}.failed{border-color:#c92a2a}.running,.cancelled,.abandoned{border-color:#e67700}.chat{border-color:#1c6dd0}pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:.25rem 0;font-size:.85em}
.text{white-space:pre-wrap;overflow-wrap:anywhere}table{border-collapse:collapse;font-size:.9em}td,th{padding:.15rem .75rem .15rem 0;text-align:left}td.n,th.n{text-align:right}`;

/** @param {unknown} text */
export function escaped(text) {
  return String(text).replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
}

/** @param {Exported} run @returns {string} */
export function asHtml({ topic, items, summary, name, now }) {
  const rows = items.map((item) => row(item, name, now)).join('\n');
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>${escaped(topic)}</title><style>${STYLE}</style></head><body>
<h1>${escaped(topic)}</h1><p class="faint">Saved ${escaped(moment(now))}</p>
${summary.calls > 0 ? table(summary, name) : ''}
<h2>Transcript</h2>
${rows}
</body></html>
`;
}

/** @param {Summary} summary @param {(id: string) => string} name */
function table({ lines, calls, failed, busy }, name) {
  const head = ['Participant', 'Called', 'Calls', 'Failed', 'Median', 'Longest', 'Total'].map((word, at) => `<th${at > 1 ? ' class="n"' : ''}>${word}</th>`).join('');
  const body = lines.map((line) => `<tr><td>${escaped(name(line.callee))}</td><td>${escaped(line.what)}</td>${
    [line.calls, line.failed, duration(line.median), duration(line.longest), duration(line.total)].map((cell) => `<td class="n">${escaped(cell)}</td>`).join('')}</tr>`).join('\n');
  return `<h2>${calls} calls, ${failed} failed, ${escaped(duration(busy))} of work</h2>\n<table><thead><tr>${head}</tr></thead><tbody>${body}</tbody></table>`;
}

/** @param {Item} item @param {(id: string) => string} name @param {number} now @returns {string} */
function row(item, name, now) {
  const time = (/** @type {number} */ at) => `<span class="faint">${escaped(clockSeconds(at))}</span>`;
  switch (item.type) {
    case 'day': return `<h2>${escaped(item.at > 0 ? dayName(item.at, now) : 'No date')}</h2>`;
    case 'gap': return '<p class="faint">Some messages are missing here.</p>';
    case 'chat': return `<div class="row chat" id="${escaped(item.id)}"><b>${escaped(name(item.envelope.from))}</b> ${time(item.envelope.at)}<div class="text">${escaped(chatText(item.envelope) ?? '')}</div></div>`;
    case 'call': return callRow(item.call, name);
    case 'presence': return `<div class="faint">${escaped(presenceText(item.envelopes, name))} ${time(item.envelopes[0].at)}</div>`;
    case 'handshake': return `<div class="faint">${escaped(handshakeText(item, name))} ${time(item.envelopes[0].at)}</div>`;
    default: return `<div class="row"><b>${escaped(name(item.envelope.from))}</b> ${time(item.envelope.at)}<div class="text">${escaped(noticed(item.envelope))}</div></div>`;
  }
}

/** @param {Call} call @param {(id: string) => string} name */
function callRow(call, name) {
  const took = call.ended === undefined ? '' : `, ${duration(call.ended - call.began)}`;
  const line = (/** @type {string} */ text) => (text ? `<pre>${escaped(text)}</pre>` : '');
  return `<div class="row call ${call.state}" id="${escaped(call.id)}"><b>${escaped(name(call.caller))}</b> → <b>${escaped(name(call.callee))}</b> <b>${escaped(titleOf(call))}</b>
<span class="faint">${escaped(`${clockSeconds(call.began)}, ${call.state}${took}`)}</span>${line(argumentsLine(call, 20_000))}${line(outcomeLine(call, 20_000))}</div>`;
}

/** Every envelope as it was received, in order, one a line. @param {Iterable<Envelope>} envelopes */
export function asJson(envelopes) {
  return `[\n${[...envelopes].map(({ raw }) => raw).join(',\n')}\n]\n`;
}
