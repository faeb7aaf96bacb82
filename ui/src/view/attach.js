/** Files that go with the next message: how far they are, and a way to leave one out. */

import { html, useEffect, useRef, useState } from '../../vendor/ui.js';
import { said, useSalon } from '../app.js';
import { linkTo, sizeText } from '../model/files.js';
import { clip } from '../model/text.js';
import { upload } from '../net/upload.js';

/** @typedef {{key: number, file: File, part: number, preview: string, abort: AbortController, done?: import('../net/upload.js').Uploaded, problem?: string}} Attached */

/** How many files go with one message. */
const MAX_FILES = 16;

/**
 * @param {{files: {list: File[]}|null, onChange: (state: {links: any[], names: string[], isBusy: boolean}) => void, clear: number}} props
 *   files: what was chosen, pasted or dropped last; clear: another number once the message is sent
 */
export function Attach({ files, onChange, clear }) {
  const { room } = useSalon();
  const [list, setList] = useState(/** @type {Attached[]} */ ([]));
  const count = useRef(0);
  const change = (/** @type {number} */ key, /** @type {Partial<Attached>} */ part) => setList((now) => now.map((each) => (each.key === key ? { ...each, ...part } : each)));
  useEffect(() => {
    for (const file of files?.list ?? []) {
      const key = count.current += 1;
      const abort = new AbortController();
      const preview = /^image\/(png|jpeg|gif|webp)$/.test(file.type) ? URL.createObjectURL(file) : '';
      setList((now) => (now.length >= MAX_FILES ? now : [...now, { key, file, part: 0, preview, abort }]));
      upload(room.topic, file, { signal: abort.signal, onProgress: (part) => change(key, { part }) })
        .then((done) => change(key, { done, part: 1 }), (error) => { if (!abort.signal.aborted) change(key, { problem: said(error) }); });
    }
  }, [files]);
  const cleared = useRef(clear);
  useEffect(() => {
    if (cleared.current === clear) return;
    cleared.current = clear;
    setList((now) => {
      for (const { preview } of now) if (preview) URL.revokeObjectURL(preview);
      return [];
    });
  }, [clear]);
  useEffect(() => {
    const done = list.flatMap((each) => each.done ?? []);
    onChange({ links: done.map(linkTo), names: done.map(({ name }) => name), isBusy: list.some((each) => !each.done && each.problem === undefined) });
  }, [list]);
  const leaveOut = (/** @type {Attached} */ each) => {
    each.abort.abort(new DOMException('left out', 'AbortError'));
    if (each.preview) URL.revokeObjectURL(each.preview);
    setList((now) => now.filter((other) => other !== each));
  };
  if (list.length === 0) return null;
  return html`
    <ul class="attach" aria-label="Files of this message">${list.map((each) => html`
      <li key=${each.key}>
        ${each.preview && html`<img src=${each.preview} alt="" />`}
        <span class="clipped">${clip(each.file.name, 80)}</span> <span class="faint">${sizeText(each.file.size)}</span>
        ${each.problem !== undefined ? html`<span class="bad" role="alert">${each.problem}</span>`
    : !each.done && html`<progress max="1" value=${each.part} aria-label=${`Upload of ${each.file.name}`}></progress>`}
        <button type="button" class="plain small" aria-label=${`Leave out ${each.file.name}`} onClick=${() => leaveOut(each)}>✕</button>
      </li>`)}</ul>`;
}
