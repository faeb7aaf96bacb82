/** A run in numbers, and as a file to keep or to send. */

import { html, useMemo } from '../../vendor/ui.js';
import { said, useSalon } from '../app.js';
import { asHtml, asJson } from '../model/exported.js';
import { nameOf } from '../model/people.js';
import { timelinePicture } from '../model/picture.js';
import { roomName } from '../model/route.js';
import { summaryOf } from '../model/summary.js';
import { isPreparation } from '../model/calls.js';
import { clip, count, duration, moment } from '../model/text.js';
import { useDialog } from './dialog.js';

/** How many lines are shown. */
const MAX_LINES = 100;

/** @param {{onClose: () => void}} props */
export function RunDialog({ onClose }) {
  const salon = useSalon();
  const { room, filter } = salon;
  const dialog = useDialog();
  // As it is when the dialog is opened: numbers that change while they are read help nobody.
  const items = useMemo(() => (filter ? room.items.filter(filter) : [...room.items]), []);
  const summary = useMemo(() => summaryOf(items.flatMap((item) => (item.type === 'call' ? [item.call] : []))), [items]);
  const name = (/** @type {string} */ id) => nameOf(room.people, id);
  const save = (/** @type {'html'|'json'} */ kind) => {
    const now = Date.now();
    const text = kind === 'html' ? asHtml({ topic: room.topic, items, summary, name, now }) : asJson(envelopesOf(items));
    download(fileName(room.topic, now, kind), new Blob([text], { type: kind === 'html' ? 'text/html' : 'application/json' }));
  };
  const savePicture = async () => {
    const now = Date.now();
    const calls = items.flatMap((item) => (item.type === 'call' && !isPreparation(item.call.method) ? [item.call] : []));
    const about = `${count(summary.calls, 'call')}, ${summary.failed} failed, ${duration(summary.busy)} of work. Saved ${moment(now)}`;
    try {
      download(fileName(room.topic, now, 'png'), await drawn(timelinePicture({ topic: room.topic, calls, name, now, about })));
    } catch (problem) {
      salon.say(`The picture could not be made: ${said(problem)}`, 'error');
    }
  };
  return html`
    <dialog class="dialog run-dialog" ref=${dialog} onClose=${onClose} aria-labelledby="run-title">
      <h2 id="run-title">${roomName(room.topic)}: ${count(summary.calls, 'call')}</h2>
      <p class="faint">${[`${summary.failed} failed`, `${summary.running} running`, `${duration(summary.busy)} of work`].join(', ')}.
        ${room.complete ? '' : ' Only what is loaded is counted: scroll up to load more.'}${filter ? ' Only what passes the filter.' : ''}</p>
      ${summary.lines.length > 0 && html`
        <div class="scroll-x" tabindex="0" role="region" aria-label="Calls by participant and tool"><table>
          <thead><tr><th>Participant</th><th>Called</th><th class="n">Calls</th><th class="n">Failed</th><th class="n">Median</th><th class="n">Longest</th><th class="n">Total</th></tr></thead>
          <tbody>${summary.lines.slice(0, MAX_LINES).map((line) => html`
            <tr key=${`${line.callee} ${line.what}`}><td><bdi>${clip(name(line.callee), 60)}</bdi></td><td>${clip(line.what, 60)}</td><td class="n">${line.calls}</td>
              <td class=${line.failed > 0 ? 'n bad' : 'n'}>${line.failed}</td><td class="n">${duration(line.median)}</td><td class="n">${duration(line.longest)}</td><td class="n">${duration(line.total)}</td></tr>`)}
          </tbody></table></div>`}
      ${summary.lines.length > MAX_LINES && html`<p class="faint">and ${summary.lines.length - MAX_LINES} more, in the file</p>`}
      <p class="aside">The files have what everybody in this room has said. Everybody who gets one can read all of it.</p>
      <form method="dialog" class="form-buttons">
        <button type="button" class="primary" onClick=${() => save('html')}>Save as HTML</button>
        <button type="button" onClick=${() => save('json')}>Save as JSON</button>
        ${summary.calls > 0 && html`<button type="button" onClick=${() => void savePicture()}>Save timeline as PNG</button>`}
        <button type="submit">Close</button>
      </form>
    </dialog>`;
}

/** @param {import('../model/types.js').Item[]} items @returns {import('../model/types.js').Envelope[]} */
function envelopesOf(items) {
  return items.flatMap((item) => {
    if (item.type === 'call') return [item.call.request, ...item.call.notices, ...(item.call.answer?.kind === 'mcp' ? [item.call.answer] : [])];
    return 'envelope' in item ? [item.envelope] : 'envelopes' in item ? item.envelopes : [];
  });
}

/** @param {string} topic @param {number} now @param {string} kind */
function fileName(topic, now, kind) {
  const stamp = new Date(now).toISOString().slice(0, 16).replace(/[^0-9]/g, '');
  return `${roomName(topic).replace(/[^A-Za-z0-9._-]+/g, '-')}-${stamp}.${kind}`;
}

/** A picture as PNG. @param {{svg: string, width: number, height: number}} picture @returns {Promise<Blob>} */
async function drawn({ svg, width, height }) {
  const url = URL.createObjectURL(new Blob([svg], { type: 'image/svg+xml' }));
  try {
    const image = new Image(width, height);
    image.src = url;
    await image.decode();
    const canvas = Object.assign(document.createElement('canvas'), { width, height });
    canvas.getContext('2d')?.drawImage(image, 0, 0);
    const blob = await new Promise((resolve) => { canvas.toBlob(resolve, 'image/png'); });
    if (!(blob instanceof Blob)) throw new Error('this browser draws none');
    return blob;
  } finally {
    URL.revokeObjectURL(url);
  }
}

/** @param {string} name @param {Blob} blob */
function download(name, blob) {
  const url = URL.createObjectURL(blob);
  const link = Object.assign(document.createElement('a'), { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
