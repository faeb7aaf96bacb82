import { html, useState } from '../../vendor/ui.js';
import { chatText, isMarkdown, repliesTo } from '../model/envelope.js';
import { filesOf } from '../model/files.js';
import { givenName, nameOf } from '../model/people.js';
import { countReplies, gist, threadsOf } from '../model/threads.js';
import { clip, clock, count, hueOf, initials, moment } from '../model/text.js';
import { useOpened, useSalon } from '../app.js';
import { lazy } from './lazy.js';
import { Markdown } from './markdown.js';
import { Name, Who } from './who.js';

/** @typedef {import('../model/types.js').ChatItem} ChatItem */

const Attachments = lazy(async () => (await import('./attachments.js')).Attachments, { quiet: true });
const MessageMenu = lazy(async () => (await import('./messagemenu.js')).MessageMenu, { sheet: 'doing', quiet: true });

/** How many replies are drawn before somebody asks for more. */
const MAX_REPLIES = 50;
/** How deep replies are drawn within each other; the rest is one click away. */
export const MAX_NESTED = 6;

/**
 * A chat message: who said what, what it replies to, and the replies it got.
 * @param {{item: ChatItem, nested?: number}} props
 */
export function ChatRow({ item, nested = 0 }) {
  const salon = useSalon();
  const { room } = salon;
  const { envelope } = item;
  const [open, toggle] = useOpened(envelope.id);
  const text = chatText(envelope) ?? '';
  const markdown = isMarkdown(envelope);
  const [more, setMore] = useState(false);
  const files = filesOf(envelope);
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
            <button type="button" aria-label="More" title="More" aria-expanded=${more} onClick=${() => setMore(!more)}>⋯</button>
          </span>
        </header>
        ${more && html`<${MessageMenu} envelope=${envelope} onClose=${() => setMore(false)} />`}
        ${nested === 0 && html`<${ReplyTo} id=${repliesTo(envelope)} />`}
        ${envelope.retracted || envelope.redacted ? html`<${Gone} envelope=${envelope} />` : html`
          <${Markdown} text=${text} plain=${!markdown} />
          ${files.length > 0 && html`<${Attachments} files=${files} />`}
          ${envelope.edited && html`<span class="edited" title=${moment(envelope.edited.at)}>edited</span>`}`}
        ${replies > 0 && nested < MAX_NESTED && html`
          <button type="button" class="more" aria-expanded=${open} onClick=${toggle}>
            ${open ? 'Hide' : 'Show'} ${count(replies, 'reply', 'replies')}
          </button>
          <button type="button" class="more" onClick=${() => salon.open({ panel: 'thread', id: item.thread ?? item.id })}>Open thread</button>`}
        ${open && html`<${Replies} id=${envelope.id} nested=${nested + 1} />`}
      </div>
    </article>
  `;
}

/** A message whose text is gone, and why. @param {{envelope: import('../model/types.js').Envelope}} props */
function Gone({ envelope: { redacted } }) {
  if (!redacted) return html`<p class="faint gone-text">Taken back by its author.</p>`;
  return html`<p class="faint gone-text">Redacted by <${Name} id=${redacted.by} />${redacted.reason ? html`: <q>${clip(redacted.reason, 300)}</q>` : '.'}</p>`;
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
