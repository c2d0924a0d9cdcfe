/** A button; one that needs a scope which the session lacks stays readable, is disabled and names the scope. */
import { type ReactNode, useId } from "react";
import { Button as AriaButton } from "react-aria-components";

import type { Scope } from "../api/session";
import { useScope } from "../app/SessionContext";
import { useLiveState } from "../api/live/useLive";

export interface ButtonProps {
  children: ReactNode;
  onPress?: () => void;
  look?: "main" | "risky" | "plain";
  label?: string;
  type?: "button" | "submit";
  disabled?: boolean;
  pressed?: boolean;
  autoFocus?: boolean;
}

export function Button({ children, onPress, look, label, type = "button", disabled, pressed, autoFocus }: ButtonProps) {
  return (
    <AriaButton
      className={look ? `button button-${look}` : "button"}
      type={type}
      onPress={onPress}
      isDisabled={disabled}
      aria-label={label}
      aria-pressed={pressed}
      autoFocus={autoFocus}
    >
      {children}
    </AriaButton>
  );
}

/** A button for a request that changes something. */
export function ActionButton({ scope, disabled, children, ...props }: ButtonProps & { scope: Scope }) {
  const reason = useId();
  const allowed = useScope(scope);
  const away = useLiveState() === "off";
  if (allowed && !away) {
    return (
      <Button {...props} disabled={disabled}>
        {children}
      </Button>
    );
  }
  const why = allowed ? "the server does not answer" : `needs the scope ${scope}`;
  return (
    <>
      <button
        type="button"
        className={props.look ? `button button-${props.look}` : "button"}
        aria-disabled="true"
        aria-label={props.label}
        aria-describedby={reason}
        title={why}
      >
        {children}
      </button>
      <span id={reason} className="hidden-visually">
        {why}
      </span>
    </>
  );
}
