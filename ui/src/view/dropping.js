import { html, useState } from '../../vendor/ui.js';
import { lazy } from './lazy.js';

const Attach = lazy(async () => (await import('./attach.js')).Attach, { sheet: 'doing', quiet: true });

/** Files that are chosen, pasted or dropped for the next message. What uploads them is loaded with the first. */
export function useFiles() {
  const [files, setFiles] = useState(/** @type {{list: File[]}|null} */ (null));
  const [state, setState] = useState({ links: /** @type {any[]} */ ([]), names: /** @type {string[]} */ ([]), isBusy: false });
  const [clear, setClear] = useState(0);
  const [isOver, setOver] = useState(false);
  const take = (/** @type {FileList|undefined|null} */ list) => {
    const found = [...list ?? []];
    if (found.length > 0) setFiles({ list: found });
    return found.length > 0;
  };
  const hasFiles = (/** @type {DragEvent} */ event) => event.dataTransfer?.types.includes('Files') === true;
  return {
    ...state, isOver,
    sent: () => setClear((times) => times + 1),
    chosen: (/** @type {any} */ event) => {
      take(event.currentTarget.files);
      event.currentTarget.value = '';
    },
    handlers: {
      onPaste: (/** @type {ClipboardEvent} */ event) => { if (take(event.clipboardData?.files)) event.preventDefault(); },
      onDragOver: (/** @type {DragEvent} */ event) => {
        if (!hasFiles(event)) return;
        event.preventDefault();
        setOver(true);
      },
      onDragLeave: () => setOver(false),
      onDrop: (/** @type {DragEvent} */ event) => {
        setOver(false);
        if (!hasFiles(event)) return;
        event.preventDefault();
        take(event.dataTransfer?.files);
      },
    },
    view: files && html`<${Attach} files=${files} clear=${clear} onChange=${setState} />`,
  };
}
