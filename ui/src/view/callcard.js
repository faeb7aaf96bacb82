import { html, useEffect, useState } from '../../vendor/ui.js';
import { fitsInCard } from '../model/groups.js';
import { argumentsLine, failureText, isQuestion, outcomeLine, titleOf } from '../model/reading.js';
import { threadsOf } from '../model/threads.js';
import { clockSeconds, clip, duration, moment } from '../model/text.js';
import { useOpened, useSalon } from '../app.js';
import { lazy } from './lazy.js';
import { Name, Who } from './who.js';

/** @typedef {import('../model/types.js').Call} Call */

const Thumbnails = lazy(async () => (await import('./thumbnails.js')).Thumbnails, { quiet: true });
const Details = lazy(async () => (await import('./calldetails.js')).Details, { sheet: 'doing' });

const MARKS = { running: '●', done: '✓', failed: '✗', cancelled: '⊘', abandoned: '⊘' };
const WORDS = { running: 'running', done: 'done', failed: 'failed', cancelled: 'cancelled', abandoned: 'abandoned' };

/** How many sub-calls are shown before somebody asks for more. */
const MAX_INNER = 5;
/** How deep cards are drawn within each other. */
const MAX_NESTED = 6;

/**
 * A call with its answer: who asked whom for what, how far it is or how it ended, and all of it once unfolded.
 * @param {{call: Call, nested?: number}} props nested: in how many other cards it stands
 */
export function CallCard({ call, nested = 0 }) {
  const salon = useSalon();
  const [open, toggle] = useOpened(call.id);
  const { caller, callee, state } = call;
  const title = titleOf(call);
  const parent = call.parent === undefined ? undefined : salon.room.calls.get(call.parent);
  const says = outcomeLine(call);
  return html`
    <article class="call" data-state=${state} data-question=${isQuestion(call) ? '' : null}
      aria-label=${`${caller} to ${callee}: ${title}, ${WORDS[state]}`}>
      ${parent && nested === 0 && html`
        <button type="button" class="reply-to" onClick=${() => salon.show(parent.id)}>
          <span aria-hidden="true">↳</span> during <b>${clip(titleOf(parent), 60)}</b> of ${parent.callee}
        </button>`}
      <header>
        <span class="mark" aria-hidden="true">${MARKS[state]}</span>
        <${Who} id=${caller} /><span class="faint" aria-label="to">→</span><${Who} id=${callee} />
        <button type="button" class="call-title" aria-expanded=${open} onClick=${toggle}>
          <b>${clip(title, 120)}</b> <span class="faint">${argumentsLine(call)}</span>
        </button>
        <${Took} call=${call} />
        <time datetime=${call.request.ts} title=${moment(call.began)}>${clockSeconds(call.began)}</time>
        <${Actions} call=${call} />
      </header>
      ${state === 'running' && html`<${Progress} call=${call} />`}
      ${state === 'failed' && html`<p class="failure" dir="auto">${failureText(call) || 'Failed without a message.'}</p>`}
      ${state === 'abandoned' && html`<p class="faint">Abandoned: <${Name} id=${caller} /> left before the answer.</p>`}
      ${state === 'done' && !open && picturesOf(call).length > 0 && html`<${Thumbnails} pictures=${picturesOf(call)} />`}
      ${state === 'done' && !open && says && html`<p class="outcome" dir="auto">${says}</p>`}
      <${SubCalls} call=${call} nested=${nested} />
      ${open && html`<${Details} call=${call} />`}
    </article>
  `;
}

/**
 * Many calls of one tool that went well.
 * @param {{group: import('../model/groups.js').Group, onToggle: () => void}} props
 */
export function GroupRow({ group, onToggle }) {
  const { calls, id, open } = group;
  const [, toggle] = useOpened(id);
  const [first, last] = [calls[0].call, calls[calls.length - 1].call];
  const slowest = Math.max(...calls.map(({ call }) => (call.ended ?? call.began) - call.began));
  return html`
    <div class="call-group">
      <button type="button" class="fold" aria-expanded=${open} onClick=${() => { toggle(); onToggle(); }}>
        <span class="fold-mark" aria-hidden="true">${open ? '▾' : '▸'}</span>
        <span><b>${calls.length} × ${clip(titleOf(first), 80)}</b>, all ok
          <span class="faint"> <${Name} id=${first.caller} /> → <${Name} id=${first.callee} />, up to ${duration(slowest)}</span></span>
      </button>
      <time datetime=${last.request.ts} title=${moment(last.began)}>${clockSeconds(last.began)}</time>
    </div>`;
}

/** The pictures in an answer. @param {Call} call @returns {any[]} */
function picturesOf({ result }) {
  return Array.isArray(result?.content) ? result.content.filter((/** @type {any} */ block) => block?.type === 'image') : [];
}

/** @param {{call: Call}} props how long it took, or takes so far */
function Took({ call }) {
  const running = call.state === 'running';
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!running) return undefined;
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, [running]);
  const end = running ? now : call.ended;
  return end === undefined ? null : html`<span class="took">${duration(Math.max(0, end - call.began))}</span>`;
}

/** @param {{call: Call}} props */
function Actions({ call }) {
  const salon = useSalon();
  const [asked, setAsked] = useState(false);
  const mine = call.caller === salon.room.me && call.state === 'running';
  // A question to the person, which waits for them.
  const isMine = call.callee === salon.room.me && call.state === 'running' && isQuestion(call);
  const cancel = () => {
    setAsked(true);
    if (salon.peer.cancel(call.id)) return;
    // Asked by another tab, or before this page was loaded: it is ours all the same.
    const { id } = call.request.payload;
    salon.peer
      .notify(call.callee, 'notifications/cancelled', { requestId: id, reason: 'cancelled by hand' }, { correlationId: call.id })
      .catch((why) => salon.say(`Not cancelled: ${why.message}`, 'error'));
  };
  return html`
    <span class="row-actions" data-kept=${mine || isMine ? '' : null}>
      ${isMine && html`<button type="button" class="primary" onClick=${() => salon.open({ panel: 'asks' })}>Answer</button>`}
      ${mine && html`<button type="button" class="danger" disabled=${asked} onClick=${cancel}>Cancel</button>`}
      ${call.tool !== undefined && salon.room.people.get(call.callee)?.present && call.callee !== salon.room.me && html`
        <button type="button" title="Call it again with these arguments" onClick=${() => salon.open({ panel: 'peer', id: call.callee, again: call.id })}>Again</button>`}
      <button type="button" title="Copy a link to this call" onClick=${() => void salon.copyLink({ view: 'room', show: call.id })}>Link</button>
      <button type="button" onClick=${() => salon.open({ panel: 'inspector', id: call.id })}>Inspect</button>
    </span>
  `;
}

/** @param {{call: Call}} props */
function Progress({ call }) {
  const { done, total, message } = call.progress ?? { done: 0 };
  const known = total !== undefined && total > 0;
  // A number of which nobody says how many there are tells little where there are words.
  const told = known ? `${+done.toFixed(2)} of ${+total.toFixed(2)}` : call.progress && !message ? String(+done.toFixed(2)) : '';
  return html`
    <div class="progress">
      <progress aria-label=${`Progress of ${titleOf(call)}`} ...${known ? { max: total, value: Math.min(done, total) } : {}}></progress>
      <span class="faint">${[told, message && clip(message, 200)].filter(Boolean).join(', ')}</span>
    </div>
  `;
}

/** @param {{call: Call, nested: number}} props what was asked for its sake */
function SubCalls({ call, nested }) {
  const salon = useSalon();
  const [all, setAll] = useState(false);
  const calls = threadsOf(salon.room).calls.get(call.id) ?? [];
  if (calls.length === 0) return null;
  const shown = all ? calls : calls.slice(0, MAX_INNER);
  return html`
    <ul class="sub-calls" aria-label="calls made because of it">
      ${shown.map((sub) => html`<${SubCall} key=${sub.id} call=${sub} nested=${nested} />`)}
      ${shown.length < calls.length && html`
        <li><button type="button" class="more" onClick=${() => setAll(true)}>${calls.length - shown.length} more</button></li>`}
    </ul>
  `;
}

/** One of them: unfolded in place where it has no row of its own. @param {{call: Call, nested: number}} props */
function SubCall({ call, nested }) {
  const salon = useSalon();
  const [open, toggle] = useOpened(call.id);
  const within = fitsInCard(call) && nested < MAX_NESTED;
  const told = call.state === 'done' || call.state === 'failed' ? outcomeLine(call, 80) : WORDS[call.state];
  return html`
    <li data-state=${call.state}>
      <div class="sub-call">
        <span class="mark" aria-hidden="true">${MARKS[call.state]}</span>
        <button type="button" class="link" aria-expanded=${within ? open : null} onClick=${() => (within ? toggle() : void salon.show(call.id))}>
          ${call.caller} → ${call.callee} <b>${clip(titleOf(call), 60)}</b>
          <span class="faint"> ${argumentsLine(call, 80)}</span>
        </button>
        <span class="faint">${told}</span><${Took} call=${call} />
      </div>
      ${within && open && html`<${CallCard} call=${call} nested=${nested + 1} />`}
    </li>`;
}
