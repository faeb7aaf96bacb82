// The timeline as a picture: an SVG that needs no style sheet. Pure: text out. Whatever participants wrote is escaped.

import { escaped } from './exported.js';
import { titleOf } from './reading.js';
import { clip, clockSeconds, hueOf, HUES } from './text.js';
import { scaleOf } from './scale.js';
import { axis, lay, visible } from './timeline.js';

/** @typedef {import('./types.js').Call} Call */

const WIDTH = 1600;
const LABELS = 180;
const MARGIN = 20;
const TOP = 76;
const ROW = 26;
/** Browsers draw no picture that is much taller. */
const MAX_ROWS = 400;

/**
 * @param {{topic: string, calls: Call[], name: (id: string) => string, now: number, about: string}} run about: a line below the title
 * @returns {{svg: string, width: number, height: number}}
 */
export function timelinePicture({ topic, calls, name, now, about }) {
  const layout = lay(calls, { by: 'people', now });
  const scale = scaleOf(layout.bars, { fold: true });
  const rows = Math.min(MAX_ROWS, layout.rows.length);
  const view = { x: 0, span: scale.length, width: WIDTH - LABELS - MARGIN };
  const height = TOP + rows * ROW + MARGIN;
  const { ticks, folds } = axis(scale, view);
  const lanes = layout.lanes.filter(({ row }) => row < rows).map((lane, at) => `
<rect x="0" y="${TOP + lane.row * ROW}" width="${WIDTH}" height="${lane.rows * ROW}" fill="${at % 2 === 0 ? '#f7f8fa' : '#ffffff'}"/>
<text x="${MARGIN}" y="${TOP + lane.row * ROW + 17}" fill="${colour(lane.id, 30)}" font-weight="600">${escaped(clip(name(lane.id), 22))}</text>`);
  const lines = ticks.map(({ px, time }) => `
<line x1="${at(px)}" x2="${at(px)}" y1="${TOP}" y2="${height - MARGIN}" stroke="#dde1e7"/><text x="${at(px) + 4}" y="${TOP - 8}" fill="#505866">${escaped(clockSeconds(time))}</text>`);
  const pauses = folds.map(({ px, width }) => `
<rect x="${at(px)}" y="${TOP}" width="${round(width)}" height="${rows * ROW}" fill="#e6e9ee"/>`);
  const bars = visible(layout, scale, { ...view, top: 0, bottom: rows }).map(bar);
  return {
    width: WIDTH, height,
    svg: `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" font-family="system-ui, sans-serif" font-size="12">
<rect width="100%" height="100%" fill="#ffffff"/>
<text x="${MARGIN}" y="26" font-size="16" font-weight="700" fill="#1a1d23">${escaped(topic)}</text><text x="${MARGIN}" y="46" fill="#505866">${escaped(about)}</text>
${[...lanes, ...pauses, ...lines, ...bars].join('')}
</svg>`,
  };
}

/** @param {import('./timeline.js').Seen} seen */
function bar({ bar: { call, row }, from, to, crowd, failed, room }) {
  const label = crowd > 1 ? `×${crowd}` : titleOf(call);
  const inside = to - from > 60;
  const space = inside ? to - from - 10 : room - to - 8;
  const words = space > 20 ? `<text x="${at(inside ? from + 5 : to + 4)}" y="${TOP + row * ROW + 17}" fill="${failed ? '#8f1d17' : '#1a1d23'}">${escaped(clip(label, Math.floor(space / 6.5)))}</text>` : '';
  return `
<rect x="${at(from)}" y="${TOP + row * ROW + 4}" width="${round(to - from)}" height="${ROW - 8}" rx="3" fill="${failed ? '#fdefee' : colour(call.callee, 86)}" stroke="${failed ? '#b3261e' : colour(call.callee, 40)}"${
  call.state === 'running' ? ' stroke-dasharray="5 3"' : ''}/>${words}`;
}

/** @param {string} id @param {number} lightness in percent */
function colour(id, lightness) {
  return `hsl(${Math.round((hueOf(id) * 360) / HUES)} 55% ${lightness}%)`;
}

/** @param {number} px */
const at = (px) => round(LABELS + px);

/** @param {number} px */
const round = (px) => Math.round(px * 10) / 10;
