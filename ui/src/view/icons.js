// The few signs that letters do not do. Drawn, not written: fonts differ in what they have.

import { html } from '../../vendor/ui.js';

/** @param {string[]} paths */
const icon = (...paths) => html`
  <svg class="icon" viewBox="0 0 16 16" width="16" height="16" fill="none" stroke="currentColor" stroke-width="1.5"
    stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">${paths.map((d) => html`<path d=${d} />`)}</svg>`;

export const PeopleIcon = () => icon('M6 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5Z', 'M1.5 13.5c0-2.2 2-3.5 4.5-3.5s4.5 1.3 4.5 3.5', 'M11 3.3a2.4 2.4 0 0 1 0 4.4', 'M12.5 10.3c1.3.5 2 1.6 2 3.2');
export const AskIcon = () => icon('M2 3.5a1 1 0 0 1 1-1h10a1 1 0 0 1 1 1v7a1 1 0 0 1-1 1H7l-3.5 2.5v-2.5H3a1 1 0 0 1-1-1Z');

export const GearIcon = () => icon('M2 4.5h6M12 4.5h2M2 11.5h2M8 11.5h6', 'M10 6.25a1.75 1.75 0 1 0 0-3.5 1.75 1.75 0 0 0 0 3.5Z', 'M6 13.25a1.75 1.75 0 1 0 0-3.5 1.75 1.75 0 0 0 0 3.5Z');

export const ClipIcon = () => icon('M13.5 7.5 8 13a3.2 3.2 0 0 1-4.5-4.5l6-6a2.1 2.1 0 0 1 3 3l-5.8 5.8a1 1 0 0 1-1.5-1.5L10 5');

/** The mark: three who talk, one of them a machine. */
export const Mark = () => html`
  <svg class="brand-mark" viewBox="0 0 32 32" aria-hidden="true">
    <path fill="currentColor" d="M8 2h16a6 6 0 0 1 6 6v12a6 6 0 0 1-6 6h-9l-6 5v-5H8a6 6 0 0 1-6-6V8a6 6 0 0 1 6-6Z" />
    <g fill="var(--accent-text)"><circle cx="10" cy="14" r="2.6" /><circle cx="16" cy="14" r="2.6" /><rect x="19.6" y="11.6" width="4.8" height="4.8" rx="1" /></g>
  </svg>`;
