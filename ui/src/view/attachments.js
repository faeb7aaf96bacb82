import { html, useState } from '../../vendor/ui.js';
import { useSalon } from '../app.js';
import { sizeText } from '../model/files.js';
import { clip } from '../model/text.js';

/** The files of a message: pictures small, everything as a download. @param {{files: import('../model/files.js').LinkedFile[]}} props */
export function Attachments({ files }) {
  const { room } = useSalon();
  const [broken, setBroken] = useState(/** @type {string[]} */ ([]));
  return html`
    <ul class="attachments" aria-label="Files">${files.map((file) => {
    const address = `v0/topics/${encodeURIComponent(room.topic)}/files/${encodeURIComponent(file.id)}`;
    const isShown = file.isPicture && !broken.includes(file.id);
    return html`<li key=${file.id}>
      ${isShown && html`<a href=${address} target="_blank" rel="noopener"><img src=${address} alt=${clip(file.name, 200)} loading="lazy" onError=${() => setBroken([...broken, file.id])} /></a>`}
      <a class="file" href=${address} download=${file.name}><bdi>${clip(file.name, 80)}</bdi></a>${file.size !== undefined && html` <span class="faint">${sizeText(file.size)}</span>`}
    </li>`;
  })}</ul>`;
}
