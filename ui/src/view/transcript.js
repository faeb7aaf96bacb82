import { html, useEffect, useRef, useState } from '../../vendor/ui.js';
import { openedIn, useRevision, useSalon, useSlowRevision } from '../app.js';
import { chatText, repliesTo } from '../model/envelope.js';
import { grouped } from '../model/groups.js';
import { nameOf, peopleRevision } from '../model/people.js';
import { countReplies, threadsOf } from '../model/threads.js';
import { clip, count, dayKey } from '../model/text.js';
import { CallCard, GroupRow } from './callcard.js';
import { ChatRow } from './chatrow.js';
import { Guard } from './guard.js';
import { lazy } from './lazy.js';
import { DayRow, GapRow, HandshakeRow, NoticeRow, PresenceRow } from './rows.js';
import { VirtualList } from './virtual.js';

/** @typedef {import('../model/groups.js').Row} Item */
/** @typedef {import('../model/room.js').RoomModel} RoomModel */

const ApprovalCard = lazy(async () => (await import('./approval.js')).ApprovalCard, { sheet: 'doing', quiet: true });
const ControlRow = lazy(async () => (await import('./controlrow.js')).ControlRow, { quiet: true });

/** Messages of one sender within so many milliseconds are shown as one. */
const TOGETHER = 5 * 60_000;

/** Between two drawings of a busy room, in milliseconds: nobody reads faster. */
const DRAW_INTERVAL = 50;

/** Between two announcements to screen readers, in milliseconds. */
const ANNOUNCE_INTERVAL = 500;

/** What rows are likely to measure before they are drawn. */
const HEIGHTS = { chat: 62, call: 74, group: 38, presence: 30, handshake: 30, notice: 34, approval: 160, control: 34, gap: 40, day: 44 };

/** The conversation of the room, newest at the bottom. */
export function Transcript() {
  const salon = useSalon();
  const { room } = salon;
  useSlowRevision(room, DRAW_INTERVAL);
  useRevision(salon);
  const list = useRef(/** @type {any} */ (null));
  const [atEnd, setAtEnd] = useState(true);
  const [flash, setFlash] = useState('');
  useAttention(room, atEnd);

  const [drawn, redraw] = useState(0);
  const { filter, target } = salon;
  const passing = filter ? room.items.filter(filter) : room.items;
  const { rows: items, groupOf, cardOf } = grouped(passing, { isOpen: (id) => openedIn(room).has(id), unreadFrom: room.unreadFrom });
  useEffect(() => {
    if (!target) return undefined;
    if (target.id === null) {
      list.current?.toEnd();
      return undefined;
    }
    // What stands in another's card is unfolded there.
    let id = target.id;
    for (let card = cardOf.get(id); card !== undefined; card = cardOf.get(id)) {
      openedIn(room).add(id);
      id = card;
    }
    const group = groupOf.get(id);
    if (group && !group.open) openedIn(room).add(group.id);
    if (group || id !== target.id) {
      redraw((times) => times + 1);
      // Its rows are drawn first.
      requestAnimationFrame(() => list.current?.reveal(id));
    } else {
      list.current?.reveal(id);
    }
    setFlash(id);
    const timer = setTimeout(() => setFlash(''), 2000);
    return () => clearTimeout(timer);
  }, [target]);

  // Of the same moment as `items`: the list also draws itself between two drawings of the transcript, and an old row must not count as drawn anew.
  const { folds } = room;
  const stamp = (/** @type {Item} */ item, /** @type {number} */ at) => [
    folds, peopleRevision(room.people), drawn, item.rev, isContinued(items, at, room), item.id === flash, item.id === room.unreadFrom, contentStamp(item, room),
  ].join();
  const row = (/** @type {Item} */ item, /** @type {number} */ at) => html`
    ${item.id === room.unreadFrom && html`<div class="unread-line" role="separator"><span>New messages</span></div>`}
    <div class=${`row-in of-${item.type}${isContinued(items, at, room) ? ' continued' : ''}${item.id === flash ? ' flash' : ''}`}>
      <${Guard} of=${item.rev}><${Row} item=${item} onToggle=${() => redraw((times) => times + 1)} /><//>
    </div>`;
  const key = (/** @type {KeyboardEvent} */ event, /** @type {Item} */ item) => keyOnRow(salon, event, item);

  // While a filter hides most of it, or after a failure, older pages are loaded only on demand: a short list would have them all.
  const top = () => { if (!filter && salon.past.problem === null) salon.older(); };

  if (isEmpty(room)) return html`<${Empty} />`;
  return html`
    <div class="transcript">
      <${VirtualList} hold=${list} items=${items} label="Transcript" row=${row} stamp=${stamp} onKey=${key}
        estimate=${estimate} onTop=${top} onEnd=${setAtEnd} head=${html`<${Head} />`} />
      ${items.length === 0 && html`<p class="empty over">Nothing here passes the filter.</p>`}
      ${!atEnd && html`
        <button type="button" class="to-end" onClick=${() => list.current?.toEnd()}>
          <span aria-hidden="true">↓</span> ${room.unread > 0 ? count(room.unread, 'new message') : 'Latest'}
        </button>`}
      <${Announcer} />
    </div>
  `;
}

/** @param {{item: Item, onToggle: () => void}} props onToggle: a group was unfolded, or folded */
function Row({ item, onToggle }) {
  switch (item.type) {
    case 'chat': return html`<${ChatRow} item=${item} />`;
    case 'call': return html`<${CallCard} call=${item.call} />`;
    case 'group': return html`<${GroupRow} group=${item} onToggle=${onToggle} />`;
    case 'presence': return html`<${PresenceRow} item=${item} />`;
    case 'handshake': return html`<${HandshakeRow} item=${item} />`;
    case 'notice': return html`<${NoticeRow} item=${item} />`;
    case 'approval': return html`<${ApprovalCard} approval=${item.approval} at=${item.envelope.at} />`;
    case 'control': return html`<${ControlRow} item=${item} />`;
    case 'gap': return html`<${GapRow} />`;
    case 'day': return html`<${DayRow} at=${item.at} />`;
  }
}

/** What stands above the oldest row. */
function Head() {
  const salon = useSalon();
  const { room } = salon;
  if (salon.past.problem !== null) {
    return html`<p class="bad">Older messages could not be loaded: ${salon.past.problem}
      <button type="button" onClick=${() => salon.older()}>Try again</button></p>`;
  }
  if (!room.history) return html`<p class="faint">What was said before is not kept in this room.</p>`;
  if (room.complete) return html`<p class="faint">The beginning of ${room.topic}</p>`;
  if (room.isFull) return html`<p class="faint">No more than these ${room.envelopes.size} envelopes are shown at a time.</p>`;
  if (salon.filter && !salon.past.loading) return html`<p><button type="button" onClick=${() => salon.older()}>Look further back</button></p>`;
  return salon.past.loading ? html`<p class="faint" role="status">Loading older messages…</p>` : null;
}

/** Whether nothing has happened but somebody's coming and going. @param {RoomModel} room */
function isEmpty({ items, complete }) {
  return items.length === 0 || (complete && items.length < 5 && items.every(({ type }) => type === 'day' || type === 'presence'));
}

/** A room in which nothing has happened, or of which nothing is here yet. */
function Empty() {
  const { connection, room } = useSalon();
  useRevision(connection);
  const { name } = connection.state;
  if (!connection.stands) {
    return html`<div class="transcript"><p class="empty faint">${name === 'closed' ? 'Nothing to show: you are not in this room.' : `Entering ${room.topic}…`}</p></div>`;
  }
  return html`
    <div class="transcript">
      <div class="empty">
        <h2>Nothing has been said here yet</h2>
        <p>Write the first message below, or bring an MCP server in:</p>
        <pre><code>salon join ${room.topic} --as everything -- npx -y @modelcontextprotocol/server-everything</code></pre>
        <p class="faint">Everybody who enters appears at the side, with the tools they offer.</p>
      </div>
    </div>
  `;
}

/** Says new messages to screen readers, and no other change of the list. */
function Announcer() {
  const { room } = useSalon();
  const revision = useSlowRevision(room, ANNOUNCE_INTERVAL);
  const seen = useRef(Date.now());
  const [text, setText] = useState('');
  // What was said may have been redacted since.
  useEffect(() => setText(''), [room.folds]);
  useEffect(() => {
    const fresh = room.items.slice(-8).filter((item) => item.type === 'chat' && item.envelope.heard !== undefined
      && item.envelope.heard > seen.current && item.envelope.from !== room.me);
    seen.current = Math.max(seen.current, ...fresh.map((item) => (item.type === 'chat' ? item.envelope.heard ?? 0 : 0)));
    if (fresh.length === 0) return;
    const lines = fresh.slice(-3).map((item) => (item.type === 'chat'
      ? `${nameOf(room.people, item.envelope.from)}: ${clip(chatText(item.envelope) ?? '', 200)}` : ''));
    setText(fresh.length > 3 ? `${count(fresh.length, 'new message')}. ${lines.at(-1)}` : lines.join('. '));
  }, [revision]);
  return html`<div class="unseen" aria-live="polite">${text}</div>`;
}

/** Tells the room whether the person reads along. @param {RoomModel} room @param {boolean} atEnd */
function useAttention(room, atEnd) {
  useEffect(() => {
    const look = () => room.attend(atEnd && !document.hidden);
    look();
    document.addEventListener('visibilitychange', look);
    return () => {
      document.removeEventListener('visibilitychange', look);
      room.attend(false);
    };
  }, [room, atEnd]);
}

/** What a row shows beside its own item: other than before when that has changed. @param {Item} item @param {RoomModel} room */
function contentStamp(item, room) {
  if (item.type === 'day') return dayKey(Date.now());
  if (item.type === 'group') return item.open;
  if (item.type === 'call') return threadsOf(room).calls.has(item.id) ? room.revision : 0;
  if (item.type !== 'chat') return 0;
  const about = repliesTo(item.envelope);
  const replies = countReplies(threadsOf(room), item.id);
  return replies > 0 && openedIn(room).has(item.id) ? room.revision : [replies, about !== undefined && room.itemOf(about)?.rev];
}

/** @param {Item} item */
function estimate(item) {
  if (item.type !== 'chat') return HEIGHTS[item.type];
  const text = chatText(item.envelope) ?? '';
  return HEIGHTS.chat + 20 * Math.min(40, Math.floor(text.length / 110) + (text.match(/\n/g)?.length ?? 0));
}

/** Whether a message goes on where the row before it ended. @param {readonly Item[]} items @param {number} at @param {RoomModel} room */
function isContinued(items, at, room) {
  const [before, item] = [items[at - 1], items[at]];
  if (item.type !== 'chat' || before?.type !== 'chat') return false;
  const [a, b] = [before.envelope, item.envelope];
  if (room.namesMe(a) || room.namesMe(b) || item.id === room.unreadFrom) return false;
  return a.from === b.from && a.to.join() === b.to.join() && item.thread === undefined && Math.floor(a.at / TOGETHER) === Math.floor(b.at / TOGETHER);
}

/** @param {import('../app.js').Salon} salon @param {KeyboardEvent} event @param {Item} item */
function keyOnRow(salon, event, item) {
  const row = /** @type {HTMLElement} */ (event.target);
  if (event.key === 'Enter') {
    /** @type {HTMLElement|null} */ (row.querySelector('[aria-expanded]') ?? row.querySelector('button'))?.click();
  } else if (event.key === 'i') {
    const id = item.type === 'call' ? item.call.id : item.type === 'group' ? item.calls[0].id : 'envelope' in item ? item.envelope.id : 'envelopes' in item ? item.envelopes[0].id : null;
    if (id !== null) salon.open({ panel: 'inspector', id });
  } else if (event.key === 'r' && item.type === 'chat') {
    salon.reply(item.envelope);
  } else {
    return;
  }
  event.preventDefault();
}

