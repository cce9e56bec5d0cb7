// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these are pieces of code.
/** Faults to plant in webhooks, usage and feedback. */

export interface PlantedFault {
  readonly name: string;
  readonly file: string;
  /** Stands in the file exactly once. */
  readonly find: string;
  readonly replace: string;
  /** Further replacements in the file. */
  readonly also?: readonly { readonly find: string; readonly replace: string }[];
  /** `--durable` finds it. */
  readonly durable?: boolean;
  /** The test that finds it, where hardly a seed does. */
  readonly test?: string;
  /** Why no behaviour that anybody may rely on changes; then it need not be found. */
  readonly equivalent?: string;
}

export const PLATFORM: readonly PlantedFault[] = [
  {
    name: "who is to be told of an end is written down by itself",
    file: "adapters/sql/runs/lease.ts",
    find: "  const findRows = createRowFinder(statements, await driver.batch(statements, toLockKeys(deployment, lease)));\n",
    replace: `  const at = statements.findIndex((statement) => statement.compileFor(driver.dialect).sql.includes("into webhook_deliveries"));
  const nothing = { compileFor: () => ({ sql: "select 1", args: [] }) };
  if (at >= 0) await driver.batch(statements.splice(at, 1, nothing), toLockKeys(deployment, lease));
  const findRows = createRowFinder(statements, await driver.batch(statements, toLockKeys(deployment, lease)));\n`,
  },
  {
    name: "a run that ends without having started is not told",
    file: "adapters/sql/statements/deliveries.ts",
    find: "from runs where webhook is not null and ${isEnding}",
    replace: "from runs where webhook is not null and claims > 0 and ${isEnding}",
  },
  {
    name: "a delivery is done before its answer is there",
    file: "lib/webhooks/claimed-delivery.ts",
    find: "    const result = await attempt(row, attemptedAt, controller);\n",
    replace: `    const early = { delivery_id: row.delivery_id, number: row.attempts, at: attemptedAt, status: 200, error: null, duration_ms: 0, address: null };
    await storage.recordDeliveryAttempt(scope, token, early, { state: "delivered" });
    const result = await attempt(row, attemptedAt, controller);\n`,
  },
  {
    name: "a redirect is a delivery",
    file: "lib/webhooks/delivery-attempt.ts",
    find: "if (status >= 200 && status <= 299)",
    replace: "if (status >= 200 && status <= 399)",
  },
  {
    name: "a delivery is tried once less than its schedule says",
    file: "lib/webhooks/claimed-delivery.ts",
    find: "settings.schedule_ms[row.series_attempts - 1]",
    replace: "settings.schedule_ms[row.series_attempts]",
  },
  {
    name: "each attempt says its own time in the body",
    file: "adapters/sql/statements/deliveries.ts",
    find: "sent_at = coalesce(sent_at, ${p.now})",
    replace: "sent_at = ${p.now}",
  },
  {
    name: "a delivery that a dead process had claimed is never sent",
    file: "adapters/sql/statements/deliveries.ts",
    find: "(w.claim_token is null or w.claimed_until <= ${p.now})",
    replace: "w.claim_token is null",
  },
  {
    name: "deliveries of a host that are under way do not count",
    file: "adapters/sql/statements/deliveries.ts",
    find: "where due.rank + coalesce(busy.sends, 0) <= ${p.per_host}",
    replace: "where due.rank <= ${p.per_host}",
  },
  {
    name: "the state is told of a run that leaves none",
    file: "adapters/sql/statements/deliveries.ts",
    find: "case when r.stateless = 1 then null else ${end.values} end",
    replace: "case when r.stateless = 2 then null else ${end.values} end",
    equivalent: "the payload of a run that leaves no state names none, and the worker gives none along",
  },
  {
    name: "every attempt is counted",
    file: "adapters/sql/statements/usage.ts",
    find: "and r.attempt = 1 and r.counts_as_attempt = 1`",
    replace: "and r.counts_as_attempt = 1`",
    also: [{ find: "select r.run_id, r.deployment,", replace: "select r.run_id || '/' || r.attempt, r.deployment," }],
  },
  {
    name: "a run that is claimed only to be ended is counted",
    file: "adapters/sql/statements/usage.ts",
    find: "and r.attempt = 1 and r.counts_as_attempt = 1`",
    replace: "and r.attempt < 2`",
    equivalent: "a pending run that a worker has to end had been started, and has its trace",
  },
  {
    name: "a run that starts with its creation is not counted",
    file: "adapters/sql/runs/create-statements.ts",
    find: "(claim ? runClaimedStatements(",
    replace: "(claim?.token === thread_id ? runClaimedStatements(",
  },
  {
    name: "full hours are counted by their sums and by their traces",
    file: "adapters/sql/statements/usage.ts",
    find: "${countEvents(edge, p.end)}",
    replace: "${countEvents(p.hours_from, p.end)}",
  },
  {
    name: "an hour is summed before it is over",
    file: "lib/usage/mod.ts",
    find: "Math.floor((environment.now() - LATE_COMMIT_GRACE_MS) / HOUR_MS) * HOUR_MS",
    replace: "Math.floor((environment.now() - LATE_COMMIT_GRACE_MS) / HOUR_MS) * HOUR_MS + HOUR_MS",
    equivalent: "a trace of an hour that is summed is added there",
  },
  {
    name: "feedback tokens survive the rollback of their run",
    file: "adapters/sql/statements/feedback.ts",
    find: "delete from feedback_tokens where run_id in (${run_ids})",
    replace: "delete from feedback_tokens where expires_at is not null and run_id in (${run_ids})",
  },
  {
    name: "the links of a run without a webhook never die",
    file: "lib/feedback/feature.ts",
    find: "isUsedBy: ({ feedback }) => feedback.length > 0,",
    replace: "isUsedBy: ({ webhook }) => webhook !== null,",
  },
  {
    name: "the life of a link begins with its run",
    file: "adapters/sql/statements/feedback.ts",
    find: "set expires_at = ${now} + life_ms where",
    replace: "set expires_at = created_at + life_ms where",
  },
  {
    name: "feedback links are shown after the error",
    file: "lib/streams/run-subscription.ts",
    find: '  for (const [event, data] of frames) publishValue(runLog, event, data);\n  if (error) publishValue(runLog, "error", error);\n',
    replace:
      '  if (error) publishValue(runLog, "error", error);\n  for (const [event, data] of frames) publishValue(runLog, event, data);\n',
  },
  {
    name: "feedback links are shown only where the run was executed",
    file: "lib/streams/run-subscription.ts",
    find: "frames: options.features.trailer(row), error",
    replace: "frames: [], error",
  },
  {
    name: "feedback that is sent again is recorded again",
    file: "adapters/sql/feedback.ts",
    find: "...(idempotency ? [insertSubmissionKey(",
    replace: "...(idempotency && now < 0 ? [insertSubmissionKey(",
  },
];
