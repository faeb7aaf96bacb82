/** One thing that a participant offers: a tool to call, a resource to read, a prompt to get. */

import { html, useEffect, useMemo, useRef, useState } from '../../vendor/ui.js';
import { command } from '../model/command.js';
import { exactPayload, stringifyExact } from '../model/exact.js';
import { isObject } from '../model/raw.js';
import { SavedArguments } from '../model/saved.js';
import { clip, duration, listed } from '../model/text.js';
import { variablesOf, expand } from '../model/template.js';
import { said, useRevision, useSalon } from '../app.js';
import { AskCard, useFocusAfter } from './asks.js';
import { SchemaForm } from './form.js';
import { JsonTree } from './json.js';
import { ToolHistory } from './toolhistory.js';
import { ResultView } from './result.js';

/** @typedef {import('../model/types.js').Call} Call */

/**
 * A request of the person's from this panel. `call` is the request envelope's id, once it is stored; `sent` is the same before that.
 * @typedef {{state: 'running'|'done'|'failed', call?: string, sent?: string, result?: any, error?: string}} Run
 */

/**
 * @param {string} id whom to ask
 * @returns {{run: Run | null, start: (method: string, params: any) => Promise<void>, stop: () => void}}
 */
function useRun(id) {
  const { peer } = useSalon();
  const [run, setRun] = useState(/** @type {Run | null} */ (null));
  const abort = useRef(/** @type {AbortController | null} */ (null));
  const start = async (/** @type {string} */ method, /** @type {any} */ params) => {
    const mine = new AbortController();
    abort.current = mine;
    // Only the newest run is shown here; all of them are in the conversation.
    const set = (/** @type {Partial<Run>} */ part) => {
      if (abort.current === mine) setRun((before) => ({ ...(before ?? { state: 'running' }), ...part }));
    };
    setRun({ state: 'running' });
    try {
      const result = await peer.request(id, method, params, { signal: mine.signal, onSend: (sent) => set({ sent }), onEnvelope: ({ id: call }) => set({ call }) });
      set({ state: 'done', result });
    } catch (error) {
      set({ state: 'failed', error: said(error) });
    }
  };
  return { run, start, stop: () => abort.current?.abort(new DOMException('cancelled by the person', 'AbortError')) };
}

/** What has become of a request. @param {{run: Run, id: string, onStop: () => void, onRead?: (uri: string) => void}} props */
function RunView({ run, id, onStop, onRead }) {
  const salon = useSalon();
  useRevision(salon.room);
  useRevision(salon.person);
  const asks = run.state === 'running' ? salon.person.asks.filter((ask) => ask.from === id) : [];
  const around = useFocusAfter(asks.length);
  useRevision(salon.connection);
  const call = run.call === undefined ? undefined : salon.room.calls.get(run.call);
  const isHeld = run.state === 'running' && run.sent !== undefined && salon.connection.isHeld(run.sent);
  const { done, total, message } = call?.progress ?? { done: 0 };
  // The answer is what the person waits for: as much of it as fits is brought into sight, from its beginning.
  useEffect(() => {
    const box = around.current;
    const fits = (box?.offsetHeight ?? 0) <= (box?.closest('.panel-body')?.clientHeight ?? 0);
    box?.scrollIntoView({ block: fits ? 'nearest' : 'start' });
  }, [run.state]);
  return html`
    <section class="run" ref=${around} tabindex="-1" aria-label="Answer" aria-busy=${run.state === 'running'}>
      <h5><span role="status">${{ running: isHeld ? 'Waits for approval' : 'Running', done: 'Answer', failed: 'It failed' }[run.state]}</span>
        ${call?.ended !== undefined && html` <span class="faint">after ${duration(Math.max(0, call.ended - call.began))}</span>`}</h5>
      ${run.state === 'running' && html`
        <div class="progress">
          <progress aria-label="Progress" ...${total !== undefined && total > 0 ? { max: total, value: Math.min(done, total) } : {}}></progress>
          <span class="faint">${clip(message ?? '', 200)}</span>
          <button type="button" class="small danger" onClick=${onStop}>Cancel</button>
        </div>`}
      ${asks.map((ask) => html`<${AskCard} key=${ask.id} ask=${ask} />`)}
      ${run.state === 'failed' && html`<p class="error-note" role="alert">${clip(run.error ?? '', 2000)}</p>`}
      ${run.state === 'done' && html`<${ResultView} result=${run.result} raw=${call?.answer?.raw} onRead=${onRead} />`}
      ${run.call !== undefined && html`
        <button type="button" class="plain small" onClick=${() => salon.show(run.call ?? '')}>Show in the conversation</button>`}
    </section>`;
}

/** @param {{item: any, name: string}} props */
function About({ item, name }) {
  const title = [item.title, item.annotations?.title].find((one) => typeof one === 'string');
  return html`
    <h4 dir="auto">${clip(title ?? item.name ?? name, 200)}</h4>
    ${title !== undefined || name !== item.name ? html`<p><code>${clip(name, 500)}</code></p>` : null}
    ${typeof item.description === 'string' && html`<p class="plain-text about" dir="auto">${clip(item.description, 10_000)}</p>`}`;
}

const CLAIMS = /** @type {[string, boolean, string][]} */ ([
  ['readOnlyHint', true, 'only reads'], ['destructiveHint', true, 'may destroy'], ['idempotentHint', true, 'the same when repeated'],
  ['openWorldHint', true, 'reaches outside'],
]);

/** What the owner says of a tool; nobody has checked it. @param {{annotations: any}} props */
function Claims({ annotations }) {
  const said_ = CLAIMS.filter(([hint, value]) => annotations?.[hint] === value);
  if (said_.length === 0) return null;
  return html`<p class="claims"><span class="faint">Its owner says: </span>${said_.map(([hint, , words]) => html`
    <span class="claim" key=${hint} data-warn=${hint === 'destructiveHint' ? '' : null}>${words}</span>`)}</p>`;
}

/** @param {{id: string, item: any, repeated?: Call}} props repeated: a call whose arguments the form begins with */
export function ToolView({ id, item, repeated }) {
  const salon = useSalon();
  const { rights, room } = salon;
  /** What the form begins with: nothing, or the arguments of an earlier call or of a saved one. An object of its own each time. */
  const [begin, setBegin] = useState(() => (repeated ? { key: repeated.id, value: exactPayload(repeated.request)?.params?.arguments ?? {} } : null));
  useRevision(rights);
  useRevision(room);
  const { run, start, stop } = useRun(id);
  const tool = String(item.name);
  const schema = useKept(item.inputSchema ?? { type: 'object' });
  const present = room.people.get(id)?.present ?? false;
  const allowed = rights.allowedBy({ participant: id, tool });
  const call = async (/** @type {unknown} */ value, /** @type {string} */ text) => {
    if (!(await rights.confirm({ participant: id, tool, args: text, annotations: item.annotations }))) return;
    await start('tools/call', { name: tool, arguments: value });
  };
  const copy = (/** @type {string} */ text) => void salon.copy(command('call', room.topic, id, tool, '--arguments', text), 'Copied as a command');
  const saved = useMemo(() => new SavedArguments({ me: room.me, participant: id, tool }), [room, id, tool]);
  const [, redraw] = useState(0);
  const save = (/** @type {string} */ text, /** @type {string[]} */ secrets) => {
    if (secrets.length > 0) salon.say(`Not saved: ${listed(secrets)} must not stay in this browser.`, 'error');
    else if (!saved.add(text)) salon.say('Not saved: this browser has no room for it.', 'error');
    redraw((times) => times + 1);
  };
  const use = (/** @type {any} */ value) => setBegin((last) => ({ key: `${last?.key ?? ''}+`, value }));
  const dangerous = item.annotations?.destructiveHint === true;
  const read = (/** @type {string} */ uri) => start('resources/read', { uri });
  return html`
    <${About} item=${item} name=${tool} />
    <${Claims} annotations=${item.annotations} />
    ${allowed === 'person' && html`<p class="aside">You allowed it in this room.
      <button type="button" class="small" onClick=${() => rights.revoke({ participant: id, tool })}>Ask again</button></p>`}
    ${allowed === 'configuration' && html`<p class="aside">The gateway's configuration allows it without asking you.</p>`}
    <${SchemaForm} key=${`${schema.key} ${begin?.key ?? ''}`} schema=${schema.value} value=${begin?.value} memory=${begin ?? item}
      sticky dangerous=${dangerous} actions=${[{ label: 'Save', what: 'arguments', act: save }, { label: 'Copy as command', act: copy }]}
      busy=${run?.state === 'running' || !present} onSubmit=${call} />
    ${run && html`<${RunView} run=${run} id=${id} onStop=${stop} onRead=${read} />`}
    <${ToolHistory} id=${id} tool=${tool} saved=${saved} onUse=${use} onCall=${call} />
    ${isObject(item.outputSchema) && html`
      <details><summary>Schema of the answer</summary><${JsonTree} value=${item.outputSchema} open=${2} /></details>`}`;
}

/** A list that is read again has the same schemas as other objects: a form must not lose what is in it for that. @param {any} schema */
function useKept(schema) {
  const key = useMemo(() => stringifyExact(schema), [schema]);
  return useMemo(() => ({ key, value: schema }), [key]);
}

/** @param {{id: string, item: any}} props a resource, or a template of them */
export function ResourceView({ id, item }) {
  const { run, start, stop } = useRun(id);
  const template = typeof item.uri === 'string' ? undefined : String(item.uriTemplate);
  const read = (/** @type {string} */ uri) => start('resources/read', { uri });
  const schema = useMemo(() => textsSchema(template === undefined ? [] : variablesOf(template).map((name) => ({ name }))), [template]);
  useEffect(() => {
    if (template === undefined) void read(String(item.uri));
  }, [template, item.uri]);
  return html`
    <${About} item=${item} name=${template ?? String(item.uri)} />
    ${item.mimeType && html`<p class="faint">${clip(item.mimeType, 100)}</p>`}
    ${template === undefined
      ? html`<button type="button" disabled=${run?.state === 'running'} onClick=${() => read(String(item.uri))}>Read again</button>`
      : html`<${SchemaForm} key=${template} schema=${schema} submit="Read" raw=${false} busy=${run?.state === 'running'}
          onSubmit=${(/** @type {any} */ values) => read(expand(template, values))} />`}
    ${run && html`<${RunView} run=${run} id=${id} onStop=${stop} onRead=${read} />`}`;
}

/** @param {{id: string, item: any}} props */
export function PromptView({ id, item }) {
  const { run, start, stop } = useRun(id);
  const args = useKept(Array.isArray(item.arguments) ? item.arguments : []);
  const schema = useMemo(() => textsSchema(args.value), [args]);
  const read = (/** @type {string} */ uri) => start('resources/read', { uri });
  return html`
    <${About} item=${item} name=${String(item.name)} />
    <${SchemaForm} key=${args.key} schema=${schema} submit="Get" raw=${false} busy=${run?.state === 'running'}
      onSubmit=${(/** @type {any} */ values) => start('prompts/get', { name: String(item.name), arguments: values })} />
    ${run && html`<${RunView} run=${run} id=${id} onStop=${stop} onRead=${read} />`}`;
}

/** @param {any[]} args names of texts, as prompts and templates have them */
function textsSchema(args) {
  const named = args.filter((one) => typeof one?.name === 'string');
  return {
    type: 'object',
    properties: Object.fromEntries(named.map(({ name, title = name, description }) => [name, { type: 'string', title, description }])),
    required: named.filter((one) => one.required === true).map((one) => one.name),
  };
}
