// SPDX-License-Identifier: GPL-3.0-or-later
// What the lab is made of: hosts, drives, meters, and what the rig itself costs.
import { id, setText } from "../dom/elements";
import { poll } from "../link/api";
import type { Rig } from "../link/replies";
import * as notices from "../shell/notices";
import { age, number } from "../text/format";
import * as tables from "./tables";

const EVERY_SECONDS = 3;
const OLD_SECONDS = 10;

export function start(): void {
  poll<Rig>({
    address: () => "/api/rig",
    everySeconds: EVERY_SECONDS,
    onReply: (rig) => {
      stale(false);
      notices.setOwn(rig.problems.map((why) => ["warn", why]));
      tables.hosts(id("rig-hosts"), rig.hosts);
      tables.drives(id("rig-drives"), rig.drives);
      tables.meters(id("rig-meters"), rig.meters);
      tables.services(id("rig-services"), rig.services);
      setText(id("rig-age"), rig.lab_age_seconds === null ? "" : `inventory as read ${age(rig.lab_age_seconds)}`);
      setText(id("rig-machine"), machine(rig.machine));
    },
    onProblem: (why, seconds) => {
      stale(seconds === null || seconds > OLD_SECONDS);
      const old = seconds === null ? "" : ` What is here is of ${age(seconds)}.`;
      notices.setOwn([["bad", `The rig's state cannot be read: ${why}.${old}`]]);
    },
  });
}

const stale = (is: boolean) => id("page").classList.toggle("stale", is);

export function machine({ processors, cpu_fraction, package_watts, why }: Rig["machine"]): string {
  const busy = cpu_fraction === null ? "" : `this machine: ${number(cpu_fraction)} of ${processors ?? "?"} processors busy`;
  const watts = package_watts === null ? `watts unknown: ${why}` : `${number(package_watts)} W of its processor packages, shared by processor time`;
  return [busy, watts].filter(Boolean).join("; ");
}

