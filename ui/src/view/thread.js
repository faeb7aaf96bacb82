/** A thread by itself: the message that it begins with, all replies in their order, and a field to reply. */

import { html, useId, useState } from '../../vendor/ui.js';
import { said, useSalon, useSlowRevision } from '../app.js';
import { count } from '../model/text.js';
import { muteReason } from '../powers.js';
import { ChatRow, MAX_NESTED } from './chatrow.js';

/** The newest replies are shown. */
const MAX_SHOWN = 200;

/** @param {{id: string}} props of the message that the thread begins with */
export function ThreadPanel({ id }) {
  const salon = useSalon();
  const { room } = salon;
  useSlowRevision(room);
  const first = room.itemOf(id);
  const replies = room.items.filter((item) => item.type === 'chat' && item.thread === id);
  const hidden = Math.max(0, replies.length - MAX_SHOWN);
  return html`
    <div class="thread">
      ${first?.type === 'chat' ? html`<${ChatRow} item=${first} nested=${MAX_NESTED} />` : html`<p class="aside">What it replies to is older than what is loaded.</p>`}
      <p class="aside">${count(replies.length, 'reply', 'replies')}${hidden > 0 ? `, the first ${hidden} are in the transcript only` : ''}</p>
      <div class="replies">${replies.slice(hidden).map((item) => html`<${ChatRow} key=${item.id} item=${item} nested=${MAX_NESTED} />`)}</div>
      <${ReplyForm} to=${id} />
    </div>`;
}

/** @param {{to: string}} props */
function ReplyForm({ to }) {
  const salon = useSalon();
  const [text, setText] = useState('');
  const id = useId();
  const isMuted = muteReason(salon.room, salon.session) !== '';
  const send = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (text.trim() === '' || isMuted) return;
    setText('');
    try {
      await salon.peer.say(text, { correlationId: to });
    } catch (problem) {
      salon.say(`Not sent: ${said(problem)}`, 'error');
      setText((now) => (now === '' ? text : now));
    }
  };
  const key = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === 'Enter' && !event.shiftKey && !event.altKey && !event.isComposing) void send(event);
  };
  return html`
    <form class="thread-reply" onSubmit=${send}>
      <label for=${id} class="unseen">Reply to this thread</label>
      <textarea id=${id} rows="2" value=${text} placeholder="Reply" readonly=${isMuted} dir="auto" onKeyDown=${key}
        onInput=${(/** @type {any} */ event) => setText(event.currentTarget.value)}></textarea>
      <button type="submit" class="primary" disabled=${text.trim() === '' || isMuted}>Reply</button>
    </form>`;
}
