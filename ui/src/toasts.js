// Short messages that go away by themselves.

/** @typedef {import('./model/types.js').Panel} Panel */
/** @typedef {{key: number, text: string, tone: 'info'|'error', about?: Panel['panel'], act?: () => void}} Toast act: what choosing it does */

const MAX_TOASTS = 4;
const TOAST_TIME = 6000;

export class Toasts {
  /** @param {() => void} changed */
  constructor(changed) {
    this.changed = changed;
    /** @type {Toast[]} oldest first */
    this.list = [];
    this.shown = 0;
  }

  /** @param {string} text @param {'info'|'error'} [tone] @param {Panel['panel']} [about] the panel that makes it needless @param {() => void} [act] */
  show(text, tone = 'info', about, act) {
    const toast = { key: this.shown += 1, text, tone, about, act };
    this.list = [...this.list.slice(1 - MAX_TOASTS), toast];
    setTimeout(() => this.dismiss(toast), TOAST_TIME);
    this.changed();
  }

  /** @param {Toast} toast */
  dismiss(toast) {
    this.list = this.list.filter((each) => each !== toast);
    this.changed();
  }

  /** A panel is in sight now, and with it what they spoke of. @param {Panel['panel']|undefined} panel */
  dismissAbout(panel) {
    if (panel === undefined || !this.list.some((toast) => toast.about === panel)) return;
    this.list = this.list.filter((toast) => toast.about !== panel);
    this.changed();
  }
}
