/** The settings of a room: its name, who may enter with which role, what becomes of calls. People who may manage it can change them. */

import { html, useEffect, useId, useMemo, useState } from '../../vendor/ui.js';
import { said, useRevision, useSalon } from '../app.js';
import { capabilitiesOf } from '../model/control.js';
import { mergePatch } from '../model/patch.js';
import { callHost } from '../net/host.js';
import { may } from '../powers.js';
import { JsonTree } from './json.js';
import { Limits } from './limits.js';
import { Members, rolesIn } from './members.js';
import { ParticipantControl } from './moderate.js';
import { Rules } from './rules.js';
import { Name } from './who.js';

/** @typedef {import('../model/control.js').TopicSettings} TopicSettings */

/** The panel. Where the loaded part of the log does not have the settings, the gateway is asked. */
export function SettingsPanel() {
  const salon = useSalon();
  const { room, peer } = salon;
  useRevision(room);
  const [problem, setProblem] = useState('');
  const { settings } = room.control;
  const isKnown = settings !== null;
  useEffect(() => {
    if (isKnown) return;
    callHost(peer, 'topic.get').then((told) => {
      room.control.learn(told.settings);
      room.changed();
    }, (error) => setProblem(said(error)));
  }, [isKnown]);
  if (problem) return html`<p class="error-note" role="alert">${problem}</p>`;
  if (!settings) return html`<p class="empty" role="status">Loading…</p>`;
  return html`<${Form} key=${settings.version} settings=${settings} />`;
}

/** @param {{settings: TopicSettings}} props */
function Form({ settings }) {
  const salon = useSalon();
  const { room, session, peer } = salon;
  const [draft, setDraft] = useState(settings);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState('');
  const id = useId();
  const canManage = may(room, session, 'manage');
  const patch = useMemo(() => mergePatch(settings, draft), [settings, draft]);
  const change = (/** @type {Partial<TopicSettings>} */ part) => setDraft((before) => ({ ...before, ...part }));
  const save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setBusy(true);
    setProblem('');
    try {
      // Of a topic without settings there is no version to begin from.
      await callHost(peer, 'topic.configure', { change: patch, ...(settings.version > 0 ? { version: settings.version } : {}) });
      salon.say('The settings are saved.');
    } catch (error) {
      setProblem(said(error));
    }
    setBusy(false);
  };
  const role = settings.members?.[room.me] ?? settings.default_role ?? 'member';
  return html`
    <form class="settings" onSubmit=${save}>
      <p class="aside">${settings.version === 0
        ? html`This room has no settings: everybody whose token names it may enter, speak and call.${canManage ? ' The first person to save some becomes its owner.' : ''}`
        : html`Your role here is <b>${role}</b>, which allows <code>${capabilitiesOf(settings, role).join(', ') || 'nothing'}</code>.`}
        ${!canManage && ' You may not change these settings.'}</p>
      <fieldset disabled=${!canManage || busy}>
        <div class="field"><div class="field-name"><label for=${`${id}-title`}>Title</label></div>
          <input id=${`${id}-title`} type="text" maxlength="200" value=${draft.title ?? ''} onInput=${(/** @type {any} */ event) => change({ title: event.currentTarget.value || undefined })} /></div>
        <div class="field"><div class="field-name"><label for=${`${id}-about`}>Description</label></div>
          <textarea id=${`${id}-about`} rows="2" maxlength="4000" value=${draft.description ?? ''} onInput=${(/** @type {any} */ event) => change({ description: event.currentTarget.value || undefined })}></textarea></div>
        <div class="field"><div class="field-name"><label for=${`${id}-access`}>Who may enter</label></div>
          <select id=${`${id}-access`} value=${draft.access ?? 'token'} onChange=${(/** @type {any} */ event) => change({ access: event.currentTarget.value })}>
            <option value="token">everybody whose token names the room</option><option value="members">members only</option></select></div>
        <${Members} draft=${draft} onChange=${change} />
        <${Rules} rules=${draft.rules ?? []} roles=${rolesIn(draft)} onChange=${(/** @type {any[]} */ rules) => change({ rules })} />
        <${Limits} draft=${draft} onChange=${change} />
        <label class="check"><input type="checkbox" checked=${draft.archived === true} onChange=${(/** @type {any} */ event) => change({ archived: event.currentTarget.checked })} />
          <span>Archived: the room can be read, and nothing new is stored</span></label>
      </fieldset>
      ${problem && html`<p class="error-note" role="alert">${problem}</p>`}
      ${canManage && html`<div class="form-buttons sticky">
        <button type="submit" class="primary" disabled=${busy || Object.keys(patch).length === 0}>Save</button>
        ${Object.keys(patch).length > 0 && html`<button type="button" onClick=${() => setDraft(settings)}>Discard changes</button>`}</div>`}
    </form>
    <${KeptOut} settings=${settings} />
    <details><summary>All settings as JSON</summary><${JsonTree} value=${settings} open=${2} /></details>`;
}

/** Who is paused or removed. @param {{settings: TopicSettings}} props */
function KeptOut({ settings: { paused = [], removed = [] } }) {
  const ids = [...new Set([...paused, ...removed])];
  if (ids.length === 0) return null;
  return html`
    <section class="settings-part"><h3>Paused and removed</h3>
      <ul class="allowed">${ids.map((each) => html`<li key=${each}><span><${Name} id=${each} always /></span><${ParticipantControl} id=${each} /></li>`)}</ul>
    </section>`;
}
