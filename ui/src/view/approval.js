/** A held call: who wants to call what, with exactly which arguments, until when, and how it was decided. */

import { html, useEffect, useMemo, useState } from '../../vendor/ui.js';
import { parseExact, stringifyExact } from '../model/exact.js';
import { at } from '../model/raw.js';
import { nameOf } from '../model/people.js';
import { clip, clock, count, duration, moment } from '../model/text.js';
import { said, useRevision, useSalon } from '../app.js';
import { callHost } from '../net/host.js';
import { isForMe, may } from '../powers.js';
import { Name, Who } from './who.js';

/** @typedef {import('../model/control.js').Approval} Approval */

const MAX_SHOWN = 20_000;

/** @param {{approval: Approval, at?: number}} props at: when it was asked for */
export function ApprovalCard({ approval, at: asked }) {
  const salon = useSalon();
  const { room, session } = salon;
  useRevision(room);
  const { caller, callee, tool, state } = approval;
  const given = useMemo(() => argumentsOf(approval.request), [approval.request]);
  const left = useTimeLeft(state === 'waiting' ? approval.expires : null);
  const open = state === 'waiting' && left > 0;
  const mine = open && isForMe(room, session, approval);
  return html`
    <article class="call approval" data-approval=${open ? 'waiting' : state} data-mine=${mine ? '' : null}
      aria-label=${`${nameOf(room.people, caller)} wants to call ${tool} of ${nameOf(room.people, callee)}`}>
      <header>
        <span class="badge-word">${open ? 'Needs approval' : OUTCOMES[state === 'waiting' ? 'expired' : state]}</span>
        <${Who} id=${caller} always /><span class="faint" aria-label="to">→</span><${Who} id=${callee} always />
        <b class="approval-tool">${clip(tool, 120)}</b>
        <span class="spring"></span>
        ${open && html`<span class="took" title=${moment(approval.expires)}>expires in ${duration(left)}</span>`}
        ${asked !== undefined && html`<time title=${moment(asked)}>${clock(asked)}</time>`}
      </header>
      ${open ? html`<pre class="code approval-arguments" tabindex="0" aria-label="exact arguments">${clip(given, MAX_SHOWN)}</pre>`
    : html`<details><summary>Arguments</summary><pre class="code approval-arguments" tabindex="0" aria-label="exact arguments">${clip(given, MAX_SHOWN)}</pre></details>`}
      ${given.length > MAX_SHOWN && html`<p class="warning">Not shown here, but sent: ${count(given.length - MAX_SHOWN, 'more character')}. Inspect shows all of it.</p>`}
      <${Votes} approval=${approval} open=${open} />
      ${mine && html`<${Decide} approval=${approval} />`}
      ${open && !mine && html`<p class="faint">${waitsFor(approval, room.me)}</p>`}
      <div class="form-buttons">
        ${room.calls.has(approval.id) && html`<button type="button" class="small" onClick=${() => void salon.show(approval.id)}>Show the call</button>`}
        ${open && caller === room.me && html`<${TakeBack} approval=${approval} />`}
        <button type="button" class="plain small" onClick=${() => salon.open({ panel: 'inspector', id: approval.notice })}>Inspect</button>
      </div>
    </article>`;
}

const OUTCOMES = { approved: 'Approved', denied: 'Denied', expired: 'Expired', ended: 'Withdrawn' };

/** @param {Approval} approval @param {string} me */
function waitsFor({ approvers, caller, needs, votes }, me) {
  const who = approvers.length === 0 ? 'somebody who may approve it' : approvers.map((each) => each.replace(/^role:(.*)$/, 'anyone with the role $1')).join(' or ');
  if (votes.some(({ by }) => by === me)) return `You have approved it. It needs ${needs} approvals.`;
  return `It waits for ${clip(who, 300)}.${caller === me ? ' You cannot decide about your own call.' : ''}`;
}

/** @param {{approval: Approval, open: boolean}} props */
function Votes({ approval: { votes, state, needs, caller }, open }) {
  const approved = votes.filter(({ decision }) => decision === 'approved').length;
  return html`
    ${votes.map(({ by, decision, reason, at: when }) => html`
      <p key=${by} class="vote" data-decision=${decision}>${decision === 'approved' ? 'Approved' : 'Denied'} by <b><${Name} id=${by} always /></b>
        <time title=${moment(when)}> ${clock(when)}</time>${reason && html`: <span dir="auto">${clip(reason, 1000)}</span>`}</p>`)}
    ${open && needs > 1 && html`<p class="faint">${approved} of ${needs} approvals</p>`}
    ${!open && state !== 'approved' && state !== 'denied' && html`<p class="faint">${state === 'ended'
      ? html`It was withdrawn: <${Name} id=${caller} /> cancelled it or may not call any more.` : 'Nobody decided in time. It was not sent.'}</p>`}`;
}

/** @param {{approval: Approval}} props */
function Decide({ approval }) {
  const salon = useSalon();
  const [reason, setReason] = useState('');
  const [problem, setProblem] = useState('');
  const [busy, setBusy] = useState(false);
  const [remember, setRemember] = useState(false);
  const { caller, callee, tool } = approval;
  const decide = async (/** @type {'approve'|'deny'} */ decision) => {
    setBusy(true);
    setProblem('');
    const { id, digest } = approval;
    try {
      await callHost(salon.peer, 'approval.decide', {
        id, digest, decision, ...(reason.trim() === '' ? {} : { reason: reason.trim() }), ...(remember ? { remember } : {}),
      });
    } catch (error) {
      setProblem(said(error));
      setBusy(false);
    }
  };
  return html`
    <form class="decide" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
      <input type="text" maxlength="1000" value=${reason} placeholder="Reason (optional)" aria-label="Reason, for everybody to read (optional)"
        onInput=${(/** @type {any} */ event) => setReason(event.currentTarget.value)} />
      <button type="button" class="primary" disabled=${busy} onClick=${() => void decide('approve')}>Approve</button>
      <button type="button" class="danger" disabled=${busy} onClick=${() => void decide('deny')}>Deny</button>
      ${may(salon.room, salon.session, 'manage') && html`
        <label class="check"><input type="checkbox" checked=${remember} onChange=${(/** @type {any} */ event) => setRemember(event.currentTarget.checked)} />
          <span>Make it a rule of this room: decide the same about every call of <code>${clip(tool, 60)}</code> of ${callee} by ${caller}</span></label>`}
    </form>
    ${problem && html`<p class="error-note" role="alert">${problem}</p>`}`;
}

/** @param {{approval: Approval}} props */
function TakeBack({ approval }) {
  const { peer } = useSalon();
  const cancel = () => {
    if (peer.cancel(approval.id)) return;
    const requestId = at(approval.request, ['payload', 'id']);
    // Called by another tab, or before this page was loaded: it is ours all the same.
    void peer.notify(approval.callee, 'notifications/cancelled', { requestId: JSON.parse(requestId ?? 'null') }, { correlationId: approval.id }).catch(() => {});
  };
  return html`<button type="button" class="small" onClick=${cancel}>Take the call back</button>`;
}

/** The arguments with every digit as they are in the text that is decided about. @param {string} request */
function argumentsOf(request) {
  const text = at(request, ['payload', 'params', 'arguments']);
  if (text === undefined) return 'no arguments';
  try {
    return stringifyExact(parseExact(text), 2);
  } catch {
    return text;
  }
}

/** How long until a moment, in milliseconds; 0 without one. @param {number|null} until */
function useTimeLeft(until) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (until === null) return undefined;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [until]);
  return until === null ? 0 : Math.max(0, until - now);
}
