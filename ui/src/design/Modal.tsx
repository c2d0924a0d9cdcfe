/** A dialog over the page: focus stays inside, Escape closes, focus returns. */
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
        <Dialog className="dialog">
          <Heading slot="title" level={2}>
            {title}
          </Heading>
          {children}
        </Dialog>
      </AriaModal>
    </ModalOverlay>
  );
}
