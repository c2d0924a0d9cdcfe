/** Line icons of 16 units; decoration only, a word always says the same. */
const PATHS = {
  check: "M3 8.5 6.5 12 13 4.5",
  cross: "M4 4l8 8M12 4l-8 8",
  play: "M5 3.5v9l7-4.5z",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  clock: "M8 2.25a5.75 5.75 0 1 0 0 11.5a5.75 5.75 0 0 0 0-11.5M8 5v3.25l2 1.5",
  stop: "M8 2.25a5.75 5.75 0 1 0 0 11.5a5.75 5.75 0 0 0 0-11.5M4 4l8 8",
  skip: "M3.5 4l4 4-4 4M8.5 4l4 4-4 4",
  dot: "M8 6.5a1.5 1.5 0 1 0 0 3a1.5 1.5 0 0 0 0-3",
  alert: "M8 2.5 14 13H2zM8 6.5v3M8 11.4v.1",
  info: "M8 2.25a5.75 5.75 0 1 0 0 11.5a5.75 5.75 0 0 0 0-11.5M8 7.5v3.25M8 5.2v.1",
  home: "M2.5 7.5 8 3l5.5 4.5M4 6.5V13h8V6.5",
  list: "M2.5 4h11M2.5 8h11M2.5 12h11",
  book: "M3 3h7.5A2.5 2.5 0 0 1 13 5.5V13H5.5A2.5 2.5 0 0 1 3 10.5z",
  bell: "M4 11V7.5a4 4 0 0 1 8 0V11l1.2 1.5H2.8zM7 14h2",
  calendar: "M2.5 4h11v9.5h-11zM2.5 7h11M5.5 2.5v3M10.5 2.5v3",
  key: "M10.5 2.5a3 3 0 1 0 0 6a3 3 0 0 0 0-6M8.3 7.7 3 13M4.5 11.5 6 13",
  gauge: "M2.5 12a5.5 5.5 0 1 1 11 0M8 12l2.5-4",
  cpu: "M4.5 4.5h7v7h-7zM6.5 2v2.5M9.5 2v2.5M6.5 11.5V14M9.5 11.5V14M2 6.5h2.5M2 9.5h2.5M11.5 6.5H14M11.5 9.5H14",
  gear: "M8 5.5a2.5 2.5 0 1 0 0 5a2.5 2.5 0 0 0 0-5M8 2v2M8 12v2M2 8h2M12 8h2M3.8 3.8l1.4 1.4M10.8 10.8l1.4 1.4M3.8 12.2l1.4-1.4M10.8 5.2l1.4-1.4",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 0 0 0-9M10.3 10.3 13.5 13.5",
  repeat: "M13 7a5 5 0 0 0-9.3-1.5M3 9a5 5 0 0 0 9.3 1.5M3.5 2.5v3h3M12.5 13.5v-3h-3",
  copy: "M5.5 5.5h7.5v8H5.5zM10.5 5.5v-3H3v8h2.5",
  chevron: "M6 3.5 10.5 8 6 12.5",
  down: "M3.5 6 8 10.5 12.5 6",
  letter: "M2.5 4h11v8.5h-11zM2.5 4.5 8 9l5.5-4.5",
  back: "M10 3.5 5.5 8 10 12.5",
  on: "M6 3.5 10.5 8 6 12.5",
  table: "M2.5 3.5h11v9h-11zM2.5 6.5h11M6.5 6.5v6",
  folder: "M2 4h4l1.5 1.5H14V12.5H2z",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg className="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
