// What stands in the panel beside the conversation, and where the focus was before it.

/** @typedef {import('./model/types.js').Panel} Panel */

export class Panels {
  /** @param {() => void} changed */
  constructor(changed) {
    this.changed = changed;
    /** @type {Panel|null} */
    this.now = null;
    /** Whether it was opened without the person's asking. */
    this.quietly = false;
    /** Whether one was, and the person has opened none since. */
    this.intruded = false;
    /** @type {Element|null} what had the focus before */
    this.opener = null;
  }

  /** @param {Panel} panel */
  open(panel) {
    if (!this.now) this.opener = document.activeElement;
    this.now = panel;
    this.quietly = false;
    this.intruded = false;
    this.changed();
  }

  /** Opens one that the person did not ask for: the focus stays where it is. Once closed, it stays so until they open one. @param {Panel} panel */
  openQuietly(panel) {
    if (this.intruded) return;
    this.open(panel);
    this.quietly = true;
    this.intruded = true;
  }

  /** Closes it; the focus goes back where it was. */
  close() {
    if (!this.now) return;
    this.now = null;
    this.changed();
    const { opener } = this;
    this.opener = null;
    if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
  }

  /** Another room is shown, with what stood beside it when the person went: that is no news. @param {Panel|null} panel */
  swap(panel) {
    this.now = panel;
    this.quietly = true;
    this.intruded = false;
  }
}
