import { html } from '../../vendor/ui.js';
import { mediaAddress } from '../model/content.js';

const MAX_THUMBNAILS = 4;

/** Pictures of an answer, small; in the unfolded card they are as they are. @param {{pictures: any[]}} props blocks of content */
export function Thumbnails({ pictures }) {
  const addresses = pictures.slice(0, MAX_THUMBNAILS).map((block) => mediaAddress('image', block.mimeType, block.data)).filter(Boolean);
  return html`<div class="thumbnails">${addresses.map((address, at) => html`
    <img key=${at} src=${address} alt=${`picture ${at + 1} of the answer`} loading="lazy" />`)}</div>`;
}
