/** Actions that are seldom used, folded into one button: by arrows and letters, Escape closes, focus returns. */
import { Button as AriaButton, Menu as AriaMenu, MenuItem, MenuTrigger, Popover, Text } from "react-aria-components";

import { useLiveState } from "../api/live/useLive";
import { allows } from "../api/session";
import type { PageAction } from "../app/pageActions";
import { useSession } from "../app/SessionContext";
import { Icon } from "./Icon";

/** An action that is not allowed stays in the menu, is disabled and says why. */
export function Menu({ label, actions }: { label: string; actions: PageAction[] }) {
  const session = useSession();
  const away = useLiveState() === "off";
  const obstacle = ({ scope }: PageAction) => {
    if (scope === undefined) return undefined;
    if (!allows(session, scope)) return `needs the scope ${scope}`;
    return away ? "the server does not answer" : undefined;
  };
  return (
    <MenuTrigger>
      <AriaButton className="button">
        {label}
        <Icon name="down" />
      </AriaButton>
      <Popover className="menu-frame" placement="bottom end">
        <AriaMenu className="menu">
          {actions.map((action) => {
            const why = obstacle(action);
            return (
              <MenuItem key={action.title} className="menu-item" textValue={action.title} isDisabled={why !== undefined} onAction={action.act}>
                <Text slot="label">{action.title}</Text>
                {why ? (
                  <Text slot="description" className="small">
                    {why}
                  </Text>
                ) : null}
              </MenuItem>
            );
          })}
        </AriaMenu>
      </Popover>
    </MenuTrigger>
  );
}
