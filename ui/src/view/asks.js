/** What others ask of the person, and what they show them: a queue to work off. */

import { html, useEffect, useId, useRef, useState } from '../../vendor/ui.js';
import { keep, kept } from '../model/kept.js';
import { isObject } from '../model/raw.js';
import { fullName } from '../model/people.js';
import { clip, clock, moment } from '../model/text.js';
import { useRevision, useSalon } from '../app.js';
import { approvalsForMe } from '../powers.js';
import { TalkAlone } from './alone.js';
import { ApprovalCard } from './approval.js';
import { AllowedTools } from './confirm.js';
import { SchemaForm } from './form.js';
import { JsonTree } from './json.js';
import { Markdown } from './markdown.js';
import { HeldPictures, Messages } from './result.js';
import { Name, Who } from './who.js';

/** @typedef {import('../net/person.js').Ask} Ask */
/** @typedef {import('../net/person.js').Note} Note */

/**
 * When what had the focus is gone with the question it belonged to, something near gets it.
 * @param {number} open how many questions there are
 * @returns {{current: HTMLElement | null}} for the element around them
 */
export function useFocusAfter(open) {
  const around = useRef(/** @type {HTMLElement | null} */ (null));
  const before = useRef(open);
  useEffect(() => {
    const fewer = open < before.current;
    before.current = open;
    if (!fewer || document.activeElement !== document.body) return;
    const next = around.current?.querySelector('.ask') ?? around.current;
    if (next instanceof HTMLElement) next.focus();
  }, [open]);
  return around;
}

/** The panel with all that waits for the person. */
export function Asks() {
  const { person, room, session } = useSalon();
  useRevision(person);
  useRevision(room);
  const { asks, notes } = person;
  const held = approvalsForMe(room, session);
  useEffect(() => person.mark('read'));
  const card = (/** @type {Note} */ note) => html`<${NoteCard} key=${note.id} note=${note} />`;
  const around = useFocusAfter(held.length + asks.length + notes.length);
  return html`
    <div class="asks" ref=${around} tabindex="-1">
      ${held.map((approval) => html`<${ApprovalCard} key=${approval.id} approval=${approval} />`)}
      ${held.length + asks.length + notes.length === 0 && html`
        <p class="empty">No questions for you. When an agent calls your tool <code>ask_human</code>, or a tool that you called wants to know
          more, its question appears here. So does a call that waits for your approval.</p>`}
      ${notes.filter((note) => note.type === 'shown').reverse().map(card)}
      ${asks.map((ask) => html`<${AskCard} key=${ask.id} ask=${ask} />`)}
      ${notes.filter((note) => note.type === 'withdrawn').reverse().map(card)}
      ${person.muted.size > 0 && html`
        <section class="allowed-tools"><h3>Muted</h3>
          <ul class="allowed">${[...person.muted].map((id) => html`
            <li key=${id}><span><${Name} id=${id} always /></span>
              <button type="button" class="small" onClick=${() => person.unmute(id)}>Listen again<span class="unseen"> to ${id}</span></button></li>`)}
          </ul>
        </section>`}
      <section class="allowed-tools"><h3>Called without asking you</h3><${AllowedTools} /></section>
    </div>`;
}

/** @param {{note: Note}} props */
function NoteCard({ note }) {
  const { person } = useSalon();
  return html`
    <article class="note" data-type=${note.type} role="status">
      <${From} id=${note.from} at=${note.at} does=${note.type === 'shown' ? 'shows you' : ''} />
      ${note.type === 'shown' ? html`<${Markdown} text=${note.text} />` : html`<p>${note.text}</p>`}
      <button type="button" class="small" onClick=${() => person.dismiss(note.id)}>Dismiss</button>
      ${note.type === 'shown' && html`<${Mute} id=${note.from} />`}
    </article>`;
}

/** @param {{id: string, at: number, does: string}} props */
function From({ id, at, does }) {
  const salon = useSalon();
  useRevision(salon.room);
  const gone = !salon.room.people.get(id)?.present;
  return html`
    <header>
      <${Who} id=${id} always />
      <span class="faint">${does}${gone ? ' (has left)' : ''}</span>
      <time datetime=${new Date(at).toISOString()} title=${moment(at)}>${clock(at)}</time>
    </header>`;
}

const DOES = {
  question: 'asks', form: 'wants to know', page: 'asks you to open a page', completion: 'wants a text written',
};

/**
 * One question, with what is needed to answer it.
 * @param {{ask: Ask}} props
 */
export function AskCard({ ask }) {
  const salon = useSalon();
  const Body = { question: QuestionBody, form: FormBody, page: PageBody, completion: CompletionBody }[ask.type];
  return html`
    <article class="ask" tabindex="-1" data-type=${ask.type} aria-label=${`${fullName(salon.room.people, ask.from)} ${DOES[ask.type]}`}>
      <${From} id=${ask.from} at=${ask.at} does=${DOES[ask.type]} />
      ${ask.text && html`<div class="ask-text"><${Markdown} text=${ask.text} /></div>`}
      ${ask.type !== 'page' && html`<p class="audience">Everybody who may enter ${salon.room.topic} can read your answer, now and later. <${TalkAlone} id=${ask.from} /></p>`}
      <${Body} ask=${ask} />
      <button type="button" class="plain small" onClick=${() => salon.show(ask.envelope)}>Show in the conversation</button>
      <${Mute} id=${ask.from} />
    </article>`;
}

/** @param {{id: string}} props */
function Mute({ id }) {
  const { person } = useSalon();
  return html`<button type="button" class="plain small" title="Declines its questions, and takes none until you listen again"
    onClick=${() => person.mute(id)}>Mute<span class="unseen"> ${id}</span></button>`;
}

/** @param {{ask: Ask}} props */
function QuestionBody({ ask }) {
  return html`
    ${ask.choices.length > 0 && html`
      <div class="choices" role="group" aria-label="Answers to choose from">
        ${ask.choices.map((choice, index) => html`
          <button type="button" key=${index} onClick=${() => ask.settle({ action: 'accept', text: choice })}>
            ${clip(choice, 300) || '(empty)'}</button>`)}
      </div>`}
    <${Answer} ask=${ask} label=${ask.choices.length > 0 ? 'Or another answer' : 'Your answer'} submit="Answer" decline="Do not answer" />`;
}

/** Under what a begun answer is kept: the panel may be closed meanwhile, and the page reloaded. @param {string} topic @param {Ask} ask */
const keyOf = (topic, ask) => `answer.${topic}.${ask.envelope}`;

/** A text to answer with. @param {{ask: Ask, label: string, submit: string, decline: string, rows?: number}} props */
function Answer({ ask, label, submit, decline, rows = 2 }) {
  const { room } = useSalon();
  const key = keyOf(room.topic, ask);
  const [text, setText] = useState(() => String(kept(key) ?? ''));
  const [missing, setMissing] = useState(false);
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const id = useId();
  const settle = (/** @type {import('../net/person.js').Outcome} */ outcome) => {
    keep(key, undefined);
    ask.settle(outcome);
  };
  const send = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (text.trim() !== '') return settle({ action: 'accept', text });
    setMissing(true);
    return field.current?.focus();
  };
  const write = (/** @type {any} */ event) => {
    keep(key, event.currentTarget.value || undefined);
    setText(event.currentTarget.value);
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) send(event);
  };
  return html`
    <form noValidate onSubmit=${send} onKeyDown=${keys}>
      <div class="field">
        <div class="field-name"><label for=${id}>${label}</label></div>
        <textarea id=${id} ref=${field} rows=${rows} value=${text} dir="auto" aria-invalid=${missing && text === '' ? 'true' : undefined}
          aria-describedby=${missing && text === '' ? `${id}-error` : undefined}
          onInput=${write}></textarea>
        ${missing && text.trim() === '' && html`<p class="field-error" id=${`${id}-error`}>is empty</p>`}
      </div>
      <div class="form-buttons">
        <button type="submit" class="primary">${submit}</button>
        <button type="button" onClick=${() => settle({ action: 'decline' })}>${decline}</button>
      </div>
    </form>`;
}

/** @param {{ask: Ask}} props */
function FormBody({ ask }) {
  const { room } = useSalon();
  return html`
    <${SchemaForm} schema=${ask.schema} memory=${ask} keepAs=${keyOf(room.topic, ask)} submit="Answer" raw=${false}
      onSubmit=${(/** @type {unknown} */ content) => ask.settle({ action: 'accept', content })}
      onCancel=${() => ask.settle({ action: 'cancel' })} cancel="Not now">
      <button type="button" onClick=${() => ask.settle({ action: 'decline' })}>Decline</button>
    <//>`;
}

/** @param {{ask: Ask}} props */
function PageBody({ ask }) {
  const { url } = ask;
  if (!url) return null;
  const doubts = [
    url.protocol === 'http:' && 'It is not encrypted.',
    (url.username || url.password) && 'It has a name or password in it, which can make it look like another address.',
    /(^|\.)xn--/.test(url.hostname) && 'Its name has letters of other alphabets, which can look like others.',
  ].filter(Boolean);
  return html`
    <div class="page-ask">
      <p>The page is at <strong class="host">${url.host}</strong>. Open it only if you know that address; it is outside this room.</p>
      <p><code class="address">${clip(url.href, 2000)}</code></p>
      ${doubts.map((doubt) => html`<p class="warning" key=${doubt}>${doubt}</p>`)}
      <div class="form-buttons">
        <a class="button primary" href=${url.href} target="_blank" rel="noopener noreferrer"
          onClick=${() => setTimeout(() => ask.settle({ action: 'accept' }))}>Open ${url.host}</a>
        <button type="button" onClick=${() => ask.settle({ action: 'decline' })}>Decline</button>
        <button type="button" onClick=${() => ask.settle({ action: 'cancel' })}>Not now</button>
      </div>
    </div>`;
}

/** @param {{ask: Ask}} props */
function CompletionBody({ ask }) {
  const { messages, systemPrompt, _meta, ...rest } = isObject(ask.params) ? ask.params : {};
  return html`
    ${typeof systemPrompt === 'string' && systemPrompt && html`
      <section><p class="ask-head">What the model is told first</p>
        <div class="plain-text" dir="auto">${clip(systemPrompt, 20_000)}</div></section>`}
    <p class="aside">It asks for what a language model would write. You answer in its place, and it goes on with your words.</p>
    <section><p class="ask-head">The conversation</p><${HeldPictures.Provider} value=${true}>
      <${Messages} messages=${Array.isArray(messages) ? messages : []} /><//></section>
    ${Object.keys(rest).length > 0 && html`
      <details><summary>Wishes for the model</summary><${JsonTree} value=${rest} open=${2} /></details>`}
    <${Answer} ask=${ask} label="Your answer" submit="Answer" decline="Decline" rows=${4} />`;
}
