/** A dialog over the page: focus goes to its first field and stays inside, Escape closes, focus returns. */
import type { ReactNode } from "react";
import { Dialog, Heading, Modal as AriaModal, ModalOverlay } from "react-aria-components";

export function Modal({
  title,
  close,
  wide,
  children,
}: {
  title: string;
  close: () => void;
  wide?: boolean;
  children: ReactNode;
}) {
  return (
    <ModalOverlay className="overlay" isOpen isDismissable onOpenChange={(open) => (open ? undefined : close())}>
      <AriaModal className={wide ? "modal modal-wide" : "modal"}>
        <Dialog className="dialog" ref={focusFirstField}>
          <Heading slot="title" level={2}>
            {title}
          </Heading>
          {children}
        </Dialog>
      </AriaModal>
    </ModalOverlay>
  );
}

/** React Aria focuses the dialog itself unless something in it has the focus by then; without a field it shall. */
function focusFirstField(dialog: HTMLElement | null): void {
  if (!dialog || dialog.contains(document.activeElement)) return;
  dialog.querySelector<HTMLElement>("input:not([type=checkbox]), select, textarea")?.focus();
}
