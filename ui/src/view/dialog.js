/** Modal dialogs: opening them, giving the focus back, and forms in them that ask the gateway for something. */

import { useEffect, useRef, useState } from '../../vendor/ui.js';
import { said } from '../app.js';
import { isAdrift } from './arrival.js';

/** A dialog that opens when it is drawn. The focus goes back to where it was, unless it has gone elsewhere meanwhile. */
export function useDialog() {
  const dialog = useRef(/** @type {HTMLDialogElement|null} */ (null));
  useEffect(() => {
    const element = dialog.current;
    const before = document.activeElement;
    element?.showModal();
    return () => {
      const isLost = isAdrift() || element?.contains(document.activeElement);
      if (isLost && before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return dialog;
}

/**
 * A form that does something and closes its dialog, or says why it could not.
 * @param {{current: HTMLDialogElement|null}} dialog @param {() => Promise<unknown>} act rejects with what is shown
 */
export function useSubmit(dialog, act) {
  const [problem, setProblem] = useState('');
  const [busy, setBusy] = useState(false);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setBusy(true);
    setProblem('');
    try {
      await act();
      dialog.current?.close();
    } catch (error) {
      setProblem(said(error));
      setBusy(false);
    }
  };
  return { problem, busy, submit };
}
