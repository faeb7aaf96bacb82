import { html, useState } from '../../vendor/ui.js';
import { chatText, repliesTo } from '../model/envelope.js';
import { givenName, nameOf } from '../model/people.js';
import { countReplies, gist, threadsOf } from '../model/threads.js';
import { clock, count, hueOf, initials, moment } from '../model/text.js';
import { useOpened, useRevision, useSalon } from '../app.js';
import { Markdown } from './markdown.js';
import { Name, Who } from './who.js';

/** @typedef {import('../model/types.js').ChatItem} ChatItem */

/** How many replies are drawn before somebody asks for more. */
const MAX_REPLIES = 50;
/** How deep replies are drawn within each other; the rest is one click away. */
const MAX_NESTED = 6;

/**
 * A chat message: who said what, what it replies to, and the replies it got.
 * @param {{item: ChatItem, nested?: number}} props
 */
export function ChatRow({ item, nested = 0 }) {
  const salon = useSalon();
  const { room } = salon;
  useRevision(room);
  const { envelope } = item;
  const [open, toggle] = useOpened(envelope.id);
  const text = chatText(envelope) ?? '';
  const markdown = envelope.payload?.params?.format === 'markdown';
  const name = nameOf(room.people, envelope.from);
  const called = room.namesMe(envelope);
  const replies = countReplies(threadsOf(room), envelope.id);
  return html`
    <article class=${called ? 'chat called' : 'chat'} aria-label=${`${name} at ${clock(envelope.at)}`}>
      <span class="avatar" data-hue=${hueOf(envelope.from)} aria-hidden="true">${initials(givenName(room.people, envelope.from))}</span>
      <div class="chat-body">
        <header>
          <${Who} id=${envelope.from} />
          ${envelope.to.length > 0 && html`<span class="faint">→ ${envelope.to.join(', ')}</span>`}
          <time datetime=${envelope.ts} title=${moment(envelope.at)}>${clock(envelope.at)}</time>
          <span class="row-actions">
            <button type="button" onClick=${() => salon.reply(envelope)}>Reply</button>
            <button type="button" title="Copy a link to this message" onClick=${() => void salon.copyLink({ view: 'room', show: envelope.id })}>Link</button>
            <button type="button" onClick=${() => salon.open({ panel: 'inspector', id: envelope.id })}>Inspect</button>
          </span>
        </header>
        ${nested === 0 && html`<${ReplyTo} id=${repliesTo(envelope)} />`}
        <${Markdown} text=${text} plain=${!markdown} />
        ${replies > 0 && nested < MAX_NESTED && html`
          <button type="button" class="more" aria-expanded=${open} onClick=${toggle}>
            ${open ? 'Hide' : 'Show'} ${count(replies, 'reply', 'replies')}
          </button>`}
        ${open && html`<${Replies} id=${envelope.id} nested=${nested + 1} />`}
      </div>
    </article>
  `;
}

/** @param {{id: string, nested: number}} props */
function Replies({ id, nested }) {
  const { room } = useSalon();
  const [most, setMost] = useState(MAX_REPLIES);
  const replies = threadsOf(room).replies.get(id) ?? [];
  return html`
    <div class="replies">
      ${replies.slice(0, most).map((item) => html`<${ChatRow} key=${item.id} item=${item} nested=${nested} />`)}
      ${replies.length > most && html`
        <button type="button" class="more" onClick=${() => setMost(most + MAX_REPLIES)}>${count(replies.length - most, 'more reply', 'more replies')}</button>`}
    </div>`;
}

/** What a message replies to, in one line that leads there. @param {{id?: string}} props */
export function ReplyTo({ id }) {
  const salon = useSalon();
  if (id === undefined) return null;
  const about = salon.room.envelopes.get(id);
  return html`
    <button type="button" class="reply-to" onClick=${() => salon.show(id)}>
      <span aria-hidden="true">↳</span> in reply to ${about ? html`<b><${Name} id=${about.from} /></b>: <bdi>${gist(about)}</bdi>` : 'something older'}
    </button>
  `;
}
