import { html, useEffect, useMemo, useState } from '../../vendor/ui.js';
import { exactPayload, parseExact, stringifyExact } from '../model/exact.js';
import { noticed } from '../model/calls.js';
import { at } from '../model/raw.js';
import { argumentsLine, isQuestion, outcomeLine, titleOf } from '../model/reading.js';
import { oneLine, threadsOf } from '../model/threads.js';
import { clock, clockSeconds, clip, count, duration, moment } from '../model/text.js';
import { useSalon } from '../app.js';
import { JsonTree } from './json.js';
import { useOpened } from './opened.js';
import { ResultView } from './result.js';
import { Name, Who } from './who.js';

/** @typedef {import('../model/types.js').Call} Call */
/** @typedef {import('../model/types.js').Envelope} Envelope */

const MARKS = { running: '●', done: '✓', failed: '✗', cancelled: '⊘', abandoned: '⊘' };
const WORDS = { running: 'running', done: 'done', failed: 'failed', cancelled: 'cancelled', abandoned: 'abandoned' };

/** How many sub-calls and notices are shown before somebody asks for more. */
const MAX_INNER = 5;
const MAX_NOTICES = 100;

/**
 * A call with its answer: who asked whom for what, how far it is or how it ended, and all of it once unfolded.
 * @param {{call: Call}} props
 */
export function CallCard({ call }) {
  const salon = useSalon();
  const [open, toggle] = useOpened(call.id);
  const { caller, callee, state } = call;
  const title = titleOf(call);
  const parent = call.parent === undefined ? undefined : salon.room.calls.get(call.parent);
  const says = outcomeLine(call);
  return html`
    <article class="call" data-state=${state} data-question=${isQuestion(call) ? '' : null}
      aria-label=${`${caller} to ${callee}: ${title}, ${WORDS[state]}`}>
      ${parent && html`
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
        <time datetime=${call.request.ts} title=${moment(call.began)}>${clock(call.began)}</time>
        <${Actions} call=${call} />
      </header>
      ${state === 'running' && html`<${Progress} call=${call} />`}
      ${state === 'failed' && html`<p class="failure">${says || 'It failed without a word.'}</p>`}
      ${state === 'abandoned' && html`<p class="faint">Abandoned: <${Name} id=${caller} /> left before the answer.</p>`}
      ${state === 'done' && !open && says && html`<p class="outcome" dir="auto">${says}</p>`}
      <${SubCalls} call=${call} />
      ${open && html`<${Details} call=${call} />`}
    </article>
  `;
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
      <button type="button" onClick=${() => salon.open({ panel: 'inspector', id: call.id })}>Inspect</button>
    </span>
  `;
}

/** @param {{call: Call}} props */
function Progress({ call }) {
  const { done, total, message } = call.progress ?? { done: 0 };
  const known = total !== undefined && total > 0;
  const told = known ? `${+done.toFixed(2)} of ${+total.toFixed(2)}` : call.progress ? String(+done.toFixed(2)) : '';
  return html`
    <div class="progress">
      <progress aria-label=${`Progress of ${titleOf(call)}`} ...${known ? { max: total, value: Math.min(done, total) } : {}}></progress>
      <span class="faint">${[told, message && clip(message, 200)].filter(Boolean).join(', ')}</span>
    </div>
  `;
}

/** @param {{call: Call}} props what was asked for its sake */
function SubCalls({ call }) {
  const salon = useSalon();
  const [all, setAll] = useState(false);
  const calls = threadsOf(salon.room).calls.get(call.id) ?? [];
  if (calls.length === 0) return null;
  const shown = all ? calls : calls.slice(0, MAX_INNER);
  return html`
    <ul class="sub-calls" aria-label="calls made because of it">
      ${shown.map((sub) => html`
        <li key=${sub.id} data-state=${sub.state}>
          <span class="mark" aria-hidden="true">${MARKS[sub.state]}</span>
          <button type="button" class="link" onClick=${() => salon.show(sub.id)}>
            ${sub.caller} → ${sub.callee} <b>${clip(titleOf(sub), 60)}</b>
            <span class="faint"> ${argumentsLine(sub, 80)}</span>
          </button>
          <span class="faint">${sub.state === 'done' || sub.state === 'failed' ? outcomeLine(sub, 80) : WORDS[sub.state]}</span>
        </li>`)}
      ${shown.length < calls.length && html`
        <li><button type="button" class="more" onClick=${() => setAll(true)}>${calls.length - shown.length} more</button></li>`}
    </ul>
  `;
}

/** @param {{call: Call}} props */
function Details({ call }) {
  const { request, answer, notices } = call;
  const path = call.tool === undefined ? ['payload', 'params'] : ['payload', 'params', 'arguments'];
  const given = useMemo(() => exact(request, path), [request]);
  const error = useMemo(() => answer && exact(answer, ['payload', 'error']), [answer]);
  return html`
    <div class="call-details">
      <section aria-label="Arguments"><h4>Arguments</h4>
        ${given === undefined ? html`<p class="faint">none</p>` : html`<${JsonTree} value=${given} open=${2} />`}
      </section>
      ${notices.length > 0 && html`<${Notices} notices=${notices} />`}
      ${answer && html`
        <section aria-label=${call.error ? 'Error' : 'Result'}><h4>${call.error ? 'Error' : 'Result'}</h4>
          ${call.error ? html`<${JsonTree} value=${error ?? call.error} open=${2} />`
            : html`<${ResultView} result=${call.result} raw=${answer.raw} />`}
        </section>`}
    </div>
  `;
}

/** @param {{notices: Envelope[]}} props */
function Notices({ notices }) {
  const salon = useSalon();
  const left = notices.length - MAX_NOTICES;
  return html`
    <section aria-label="Meanwhile"><h4>Meanwhile</h4>
      ${left > 0 && html`<p class="faint">${count(left, 'earlier notice')} not shown</p>`}
      <ol class="notices">
        ${notices.slice(-MAX_NOTICES).map((notice) => html`
          <li key=${notice.id}>
            <time datetime=${notice.ts}>${clockSeconds(notice.at)}</time>
            <button type="button" class="link" onClick=${() => salon.open({ panel: 'inspector', id: notice.id })}>
              ${noticeLine(notice)}
            </button>
          </li>`)}
      </ol>
    </section>
  `;
}

/** @param {Envelope} notice */
function noticeLine(notice) {
  const { progress, total, message, reason } = exactPayload(notice)?.params ?? {};
  if (progress !== undefined) {
    const told = [stringifyExact(progress), total && `of ${stringifyExact(total)}`, typeof message === 'string' && message];
    return oneLine(told.filter(Boolean).join(' '));
  }
  return oneLine(typeof reason === 'string' ? `cancelled: ${reason}` : noticed(notice));
}

/** A part of an envelope with every digit as it was sent. @param {Envelope} envelope @param {string[]} path @returns {any} */
function exact(envelope, path) {
  const text = at(envelope.raw, path);
  try {
    return text === undefined ? undefined : parseExact(text);
  } catch {
    return JSON.parse(text ?? 'null');
  }
}
