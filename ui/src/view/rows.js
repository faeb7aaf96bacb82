// The rows of the transcript that are neither chat nor calls.

import { html } from '../../vendor/ui.js';
import { useOpened, useSalon } from '../app.js';
import { noticed } from '../model/calls.js';
import { messageType } from '../model/envelope.js';
import { nameOf } from '../model/people.js';
import { handshakeText, presenceText } from '../model/folded.js';
import { clip, clock, count, dayName, moment } from '../model/text.js';
import { Who } from './who.js';

/** @typedef {import('../model/types.js').Envelope} Envelope */
/** @typedef {import('../model/types.js').Call} Call */
/** @typedef {import('../model/types.js').PresenceItem} PresenceItem */
/** @typedef {import('../model/types.js').HandshakeItem} HandshakeItem */
/** @typedef {import('../model/types.js').NoticeItem} NoticeItem */

/** How many of the envelopes in a folded row are listed. */
const MAX_LISTED = 100;

/** @param {{at: number}} props */
export function DayRow({ at }) {
  return html`<div class="day-line" role="separator"><span>${at > 0 ? dayName(at, Date.now()) : 'No date'}</span></div>`;
}

export function GapRow() {
  return html`<div class="gap-line" role="separator"><span>Some messages are missing here: the gateway does not keep them any more</span></div>`;
}

/** Joins and leaves that came together. @param {{item: PresenceItem}} props */
export function PresenceRow({ item }) {
  const { room } = useSalon();
  const [open, toggle] = useOpened(item.id);
  const { envelopes } = item;
  return html`
    <${Folded} at=${envelopes[0].at} mark="·" open=${open} toggle=${toggle} many=${envelopes.length}
      text=${presenceText(envelopes, (id) => nameOf(room.people, id))} />
    ${open && envelopes.length > 1 && html`<${Listed} envelopes=${envelopes} say=${(/** @type {Envelope} */ each) =>
      `${nameOf(room.people, each.payload.participant?.id ?? '')} ${each.payload.event === 'join' ? 'joined' : 'left'}`} />`}
  `;
}

/** What machines said to each other to get ready. @param {{item: HandshakeItem}} props */
export function HandshakeRow({ item }) {
  const { room } = useSalon();
  const [open, toggle] = useOpened(item.id);
  const { calls, envelopes } = item;
  const failed = calls.filter((call) => call.state === 'failed');
  return html`
    <${Folded} at=${envelopes[0].at} mark="⇄" open=${open} toggle=${toggle} many=${envelopes.length}
      text=${handshakeText(item, (id) => nameOf(room.people, id))}
      bad=${failed.length > 0 ? `${count(failed.length, 'failure')}: ${clip(failed[0].error?.message ?? '', 120)}` : ''} />
    ${open && html`<${Listed} envelopes=${envelopes} say=${(/** @type {Envelope} */ each) => envelopeText(each, room.calls)} />`}
  `;
}

/** Any other notification, or an answer to something that is not here. @param {{item: NoticeItem}} props */
export function NoticeRow({ item }) {
  const salon = useSalon();
  const { envelope } = item;
  const level = envelope.payload?.params?.level;
  const bad = envelope.payload?.error !== undefined || ['error', 'critical', 'alert', 'emergency'].includes(level);
  return html`
    <div class=${bad ? 'notice bad' : 'notice'}>
      <${Who} id=${envelope.from} />
      <span class="notice-text" dir="auto">${messageType(envelope) === 'response' ? 'answered: ' : ''}${clip(noticed(envelope), 400)}</span>
      <button type="button" class="inspect" onClick=${() => salon.open({ panel: 'inspector', id: envelope.id })}>Inspect</button>
      <time datetime=${envelope.ts} title=${moment(envelope.at)}>${clock(envelope.at)}</time>
    </div>
  `;
}

/** @param {{at: number, mark: string, text: string, bad?: string, open: boolean, toggle: () => void, many: number}} props */
function Folded({ at, mark, text, bad, open, toggle, many }) {
  const inside = html`<span class="fold-mark" aria-hidden="true">${many > 1 ? (open ? '▾' : '▸') : mark}</span><span>${text}</span>`;
  return html`
    <div class="folded">
      ${many > 1
        ? html`<button type="button" class="fold" aria-expanded=${open} onClick=${toggle}>${inside}</button>`
        : html`<span class="fold">${inside}</span>`}
      ${bad && html`<span class="bad">${bad}</span>`}
      <time title=${moment(at)}>${clock(at)}</time>
    </div>
  `;
}

/** @param {{envelopes: Envelope[], say: (envelope: Envelope) => string}} props */
function Listed({ envelopes, say }) {
  const salon = useSalon();
  const rest = envelopes.length - MAX_LISTED;
  return html`
    <ul class="fold-list">
      ${envelopes.slice(0, MAX_LISTED).map((each) => html`
        <li key=${each.id}>
          <button type="button" title="Inspect" onClick=${() => salon.open({ panel: 'inspector', id: each.id })}>${say(each)}</button>
          <time title=${moment(each.at)}>${clock(each.at)}</time>
        </li>`)}
      ${rest > 0 && html`<li class="faint">and ${rest} more</li>`}
    </ul>
  `;
}

/** @param {Envelope} envelope @param {Map<string, Call>} calls */
function envelopeText(envelope, calls) {
  const to = envelope.to.length > 0 ? envelope.to.join(', ') : 'everybody';
  const about = calls.get(envelope.correlationId ?? '');
  const what = envelope.payload.method ?? `${envelope.payload.error ? 'error for' : 'answer to'} ${about?.method ?? 'something'}`;
  return `${envelope.from} → ${to}: ${what}`;
}
