/** A sheet at the side, or a dialog in the middle. The browser's own dialog keeps the focus in and gives it back. */
import type { ComponentChildren, VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface SheetProps {
  readonly title: string;
  readonly close: () => void;
  readonly children: ComponentChildren;
  readonly side?: boolean;
}

/**
 * Shows a dialog over the page, opened at once. Escape and ✕ call `close`, and then the caller must remove it; a press beside the
 * dialog does nothing.
 */
export function Sheet({ title, close, children, side = false }: SheetProps): VNode {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
    return () => dialog.current?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      class={side ? "sheet side" : "sheet"}
      aria-label={title}
      onCancel={(event) => {
        event.preventDefault();
        close();
      }}
    >
      <header class="head">
        <h2>{title}</h2>
        <button type="button" class="quiet" aria-label="Close" onClick={close}>
          ✕
        </button>
      </header>
      <div class="sheet-body">{children}</div>
    </dialog>
  );
}
