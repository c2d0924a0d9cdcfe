/** The frame of a page: a heading that takes the focus after a navigation, actions beside it. */
import { type ReactNode, useEffect, useRef } from "react";

export function Page({ title, actions, children }: { title: string; actions?: ReactNode; children: ReactNode }) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} – NoETL`;
  }, [title]);
  useEffect(() => heading.current?.focus({ preventScroll: true }), []);
  return (
    <div className="page">
      <header className="page-head">
        <h1 ref={heading} tabIndex={-1}>
          {title}
        </h1>
        {actions ? <div className="row">{actions}</div> : null}
      </header>
      {children}
    </div>
  );
}
