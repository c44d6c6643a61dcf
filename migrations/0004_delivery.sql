-- What a worker does: find out up to where the log is final, claim, settle, take over.

-- SQLSTATE SS001: the worker instance has lost its lease; all that it holds belongs to others.

-- The transactions that hold the lock an INSERT takes before it draws an id, on the log or on one
-- of its partitions. `vxid` names a transaction as pg_locks does; `names` are all the names under
-- which the same transaction may be found later: PREPARE TRANSACTION renames it to -1/<xid>, and
-- one that has no xid yet could become any prepared transaction.
CREATE FUNCTION log_writers(p_stream bigint) RETURNS TABLE (vxid text, names text[])
LANGUAGE sql VOLATILE SET search_path FROM CURRENT AS $$
    WITH locks AS MATERIALIZED (SELECT * FROM pg_locks WHERE granted),
    logs AS (
        SELECT to_regclass('message_log_' || p_stream)::oid AS oid
        UNION ALL
        SELECT inhrelid FROM pg_inherits WHERE inhparent = to_regclass('message_log_' || p_stream)),
    writers AS (
        SELECT DISTINCT l.virtualtransaction
        FROM locks l JOIN logs ON logs.oid = l.relation
        WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock'
          AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
          -- A prepared transaction has no pid.
          AND l.pid IS DISTINCT FROM pg_backend_pid())
    SELECT w.virtualtransaction,
           array_agg(w.virtualtransaction) || coalesce(array_agg('-1/' || x.transactionid) FILTER (WHERE x.transactionid IS NOT NULL), '{prepared}')
    FROM writers w
    LEFT JOIN locks x ON x.locktype = 'transactionid' AND x.mode = 'ExclusiveLock'
                     AND x.virtualtransaction = w.virtualtransaction
    GROUP BY 1
$$;

-- Up to which id the log is final: no message at or below it can appear any more.
--
-- Ids are drawn under the writer's lock on the log, and that lock is held until the transaction
-- has ended. So once every transaction that held it just after the id `candidate` was seen has
-- ended, nothing below the candidate is still to come. A transaction that does not write to this
-- log holds no such lock and delays nobody, however long it runs.
--
-- `candidate` and `names` carry a wait from one call to the next. Each statement of a VOLATILE
-- function sees a new snapshot, which READ COMMITTED is needed for.
CREATE FUNCTION fence(
    p_stream bigint, p_final bigint, p_candidate bigint, p_names text[],
    OUT final bigint, OUT candidate bigint, OUT names text[])
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
DECLARE
    v_busy boolean;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'the fence needs READ COMMITTED, this transaction is %', upper(current_setting('transaction_isolation'))
            USING ERRCODE = 'invalid_transaction_state',
                  HINT = 'Unset default_transaction_isolation for the role or the database.';
    END IF;
    final := p_final;
    IF p_candidate > p_final THEN
        SELECT EXISTS (SELECT FROM log_writers(p_stream) w
                       WHERE w.vxid = ANY (p_names) OR (w.vxid LIKE '-1/%' AND 'prepared' = ANY (p_names)))
            INTO v_busy;
        IF v_busy THEN
            candidate := p_candidate;
            names := p_names;
            RETURN;
        END IF;
        final := p_candidate;
    END IF;
    EXECUTE format('SELECT id FROM message_log_%s WHERE id > $1 AND id <= $2 ORDER BY id DESC LIMIT 1', p_stream)
        INTO candidate USING final, last_drawn_id(p_stream);
    IF candidate IS NULL THEN
        RETURN;
    END IF;
    SELECT array_agg(n) INTO names FROM log_writers(p_stream) w, unnest(w.names) AS n;
    IF names IS NULL THEN
        final := candidate;
        candidate := NULL;
    END IF;
END $$;

-- Serialises the claims and take-overs of one group until the end of the transaction, and fails
-- where the instance has been fenced.
CREATE FUNCTION enter_group(p_group bigint, p_instance uuid) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(format('%s.claim', current_schema), p_group));
    IF NOT EXISTS (SELECT FROM worker_instance WHERE id = p_instance AND fenced_at IS NULL) THEN
        RAISE EXCEPTION 'worker instance % has lost its lease', p_instance USING ERRCODE = 'SS001';
    END IF;
END $$;

-- The id up to which messages of the stream were claimed for the group.
CREATE FUNCTION group_position(p_stream bigint, p_group bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
DECLARE
    v_position bigint;
BEGIN
    EXECUTE format('SELECT high FROM claim_%s WHERE consumer_group_id = $1 AND takeover = 0 ORDER BY low DESC LIMIT 1', p_stream)
        INTO v_position USING p_group;
    IF v_position IS NULL THEN
        SELECT start_position INTO STRICT v_position FROM consumer_group_config WHERE id = p_group;
    END IF;
    RETURN v_position;
END $$;

-- Claims the next messages for the group: at most p_limit ids, all at or below the fence.
-- claim_id is null where there is nothing to claim; the other columns go into the next call.
CREATE FUNCTION claim_messages(
    p_stream bigint, p_group bigint, p_instance uuid, p_limit bigint, p_final bigint, p_candidate bigint, p_names text[],
    OUT final bigint, OUT candidate bigint, OUT names text[], OUT claim_id bigint, OUT low bigint, OUT high bigint)
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
DECLARE
    v_position bigint := group_position(p_stream, p_group);
    v_first    bigint;
BEGIN
    IF p_final > v_position THEN
        final := p_final;
        candidate := p_candidate;
        names := p_names;
    ELSE
        SELECT f.final, f.candidate, f.names INTO final, candidate, names
        FROM fence(p_stream, v_position, p_candidate, p_names) f;
        IF final = v_position THEN
            RETURN;
        END IF;
    END IF;
    PERFORM enter_group(p_group, p_instance);
    low := group_position(p_stream, p_group) + 1;
    EXECUTE format('SELECT id FROM message_log_%s WHERE id >= $1 AND id <= $2 ORDER BY id LIMIT 1', p_stream)
        INTO v_first USING low, final;
    IF v_first IS NULL THEN
        low := NULL;
        RETURN;
    END IF;
    high := least(final, v_first + p_limit - 1);
    EXECUTE format('INSERT INTO claim_%s (consumer_group_id, low, high, instance) VALUES ($1, $2, $3, $4) RETURNING id', p_stream)
        INTO claim_id USING p_group, low, high, p_instance;
END $$;

-- Claims messages whose next attempt is due.
CREATE FUNCTION claim_exceptions(p_stream bigint, p_group bigint, p_instance uuid, p_limit bigint)
RETURNS TABLE (message_id bigint, attempts integer, run integer, prior_attempts integer, crashes integer)
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
DECLARE
    -- As a parameter, since a call of a volatile function could not bound the index scan.
    v_now timestamptz := clock_timestamp();
    v_due boolean;
BEGIN
    EXECUTE format($sql$
        SELECT EXISTS (SELECT FROM exception_queue_%s
                       WHERE consumer_group_id = $1 AND status IN ('ready', 'deferred') AND next_attempt_at <= $2)
        $sql$, p_stream) INTO v_due USING p_group, v_now;
    IF NOT v_due THEN
        RETURN;
    END IF;
    PERFORM enter_group(p_group, p_instance);
    RETURN QUERY EXECUTE format($sql$
        UPDATE exception_queue_%1$s e
        SET status = 'inflight', claimed_by = $2, next_attempt_at = NULL, updated_at = clock_timestamp()
        WHERE e.consumer_group_id = $1 AND e.message_id IN (
            SELECT d.message_id FROM exception_queue_%1$s d
            WHERE d.consumer_group_id = $1 AND d.status IN ('ready', 'deferred') AND d.next_attempt_at <= $4
            ORDER BY d.next_attempt_at LIMIT $3 FOR UPDATE SKIP LOCKED)
        RETURNING e.message_id, e.attempts, e.run, e.prior_attempts, e.crashes$sql$, p_stream)
        USING p_group, p_instance, p_limit, v_now;
END $$;

-- Records what became of messages, all or nothing.
--   p_claims     claims that are wholly done
--   p_rest       [{low, high, takeover}] parts of these claims that are not done and go on as claims of their own
--   p_failures   [{message_id, outcome, error, fingerprint, delay_ms, duration_us, destination}] of messages of these claims;
--                outcome is failed (again after delay_ms), exhausted or terminal (both dead)
--   p_exceptions the same of messages that claim_exceptions gave, with the outcomes succeeded and released besides
-- Fails with SS001 where another worker has taken a claim over. Returns how many of p_exceptions
-- were still this instance's; the others are left as they are.
CREATE FUNCTION settle(
    p_stream bigint, p_group bigint, p_instance uuid, p_claims bigint[], p_rest jsonb, p_failures jsonb, p_exceptions jsonb
) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
DECLARE
    v_count bigint;
BEGIN
    IF p_rest <> '[]' OR p_exceptions <> '[]' THEN
        -- A worker that is taking this instance over must see all that it holds, and holds still.
        PERFORM enter_group(p_group, p_instance);
    END IF;
    IF cardinality(p_claims) > 0 THEN
        -- A claim that was rotated away had been taken over and resolved before.
        EXECUTE format($sql$
            INSERT INTO resolution_%1$s (claim_id, outcome)
            SELECT id, 'acked' FROM claim_%1$s WHERE id = ANY ($1) AND instance = $2 ORDER BY id
            ON CONFLICT DO NOTHING$sql$, p_stream) USING p_claims, p_instance;
        GET DIAGNOSTICS v_count = ROW_COUNT;
        IF v_count <> cardinality(p_claims) THEN
            RAISE EXCEPTION 'worker instance % has lost its lease', p_instance USING ERRCODE = 'SS001';
        END IF;
    END IF;
    IF p_rest <> '[]' THEN
        EXECUTE format($sql$
            INSERT INTO claim_%s (consumer_group_id, takeover, low, high, instance)
            SELECT $1, takeover, low, high, $2 FROM jsonb_to_recordset($3) AS r (low bigint, high bigint, takeover integer)$sql$, p_stream)
            USING p_group, p_instance, p_rest;
    END IF;
    IF p_failures <> '[]' THEN
        EXECUTE format($sql$
            WITH f AS MATERIALIZED (
                SELECT f.*, prior.attempts, prior.run + 1 AS run
                FROM jsonb_to_recordset($2) AS f (
                    message_id bigint, outcome text, error text, fingerprint text, delay_ms bigint, duration_us bigint, destination text),
                -- A message that was delivered before, ahead of a rewind, keeps its history.
                LATERAL (SELECT coalesce(max(attempt), 0) AS attempts, coalesce(max(d.run), 0) AS run
                         FROM delivery_log_%1$s d
                         WHERE d.consumer_group_id = $1 AND d.message_id = f.message_id) AS prior),
            queued AS (
                INSERT INTO exception_queue_%1$s (consumer_group_id, message_id, status, attempts, run, prior_attempts,
                                                  last_error, error_fingerprint, next_attempt_at)
                SELECT $1, message_id, CASE outcome WHEN 'failed' THEN 'deferred' ELSE 'dead' END, 1, run, attempts,
                       error, fingerprint,
                       CASE outcome WHEN 'failed' THEN clock_timestamp() + delay_ms * interval '1 ms' END
                FROM f
                -- A row that a person put in ahead of the group is overtaken by what happened.
                ON CONFLICT (consumer_group_id, message_id) DO UPDATE
                SET status = excluded.status, attempts = excluded.attempts, run = excluded.run,
                    prior_attempts = excluded.prior_attempts, last_error = excluded.last_error,
                    error_fingerprint = excluded.error_fingerprint, next_attempt_at = excluded.next_attempt_at,
                    claimed_by = NULL, updated_at = clock_timestamp()),
            buried AS (
                INSERT INTO dead_letter (stream_id, consumer_group_id, message_id, run, destination)
                SELECT %1$s, $1, message_id, run, destination FROM f WHERE outcome IN ('exhausted', 'terminal')
                ON CONFLICT (stream_id, message_id, consumer_group_id, run)
                    DO UPDATE SET created_at = excluded.created_at, destination = excluded.destination)
            INSERT INTO delivery_log_%1$s
                (consumer_group_id, message_id, attempt, run, status, error, attempted_at, duration, destination)
            SELECT $1, message_id, attempts + 1, run, CASE outcome WHEN 'terminal' THEN 'terminal' ELSE 'failed' END, error,
                   clock_timestamp() - duration_us * interval '1 us', duration_us * interval '1 us', destination
            FROM f$sql$, p_stream) USING p_group, p_failures;
    END IF;
    IF p_exceptions = '[]' THEN
        RETURN 0;
    END IF;
    -- Only messages in flight have a claimed_by. It is compared in this way to keep the planner off
    -- its index, of which it expects so little that it would read all of it for each message.
    EXECUTE format($sql$
        WITH o AS MATERIALIZED (
            SELECT * FROM jsonb_to_recordset($3) AS o (
                message_id bigint, outcome text, error text, fingerprint text, delay_ms bigint, duration_us bigint, destination text)),
        removed AS (
            DELETE FROM exception_queue_%1$s e USING o
            WHERE e.consumer_group_id = $1 AND e.message_id = o.message_id AND o.outcome = 'succeeded'
              AND e.claimed_by IS NOT DISTINCT FROM $2
            RETURNING e.message_id, e.run, e.prior_attempts + e.attempts + 1 AS attempt),
        changed AS (
            UPDATE exception_queue_%1$s e
            SET status = CASE o.outcome WHEN 'released' THEN 'ready' WHEN 'failed' THEN 'deferred' ELSE 'dead' END,
                attempts = e.attempts + CASE o.outcome WHEN 'released' THEN 0 ELSE 1 END,
                last_error = CASE o.outcome WHEN 'released' THEN e.last_error ELSE o.error END,
                error_fingerprint = CASE o.outcome WHEN 'released' THEN e.error_fingerprint ELSE o.fingerprint END,
                next_attempt_at = CASE WHEN o.outcome IN ('released', 'failed')
                                       THEN clock_timestamp() + o.delay_ms * interval '1 ms' END,
                claimed_by = NULL,
                updated_at = clock_timestamp()
            FROM o
            WHERE e.consumer_group_id = $1 AND e.message_id = o.message_id AND o.outcome <> 'succeeded'
              AND e.claimed_by IS NOT DISTINCT FROM $2
            RETURNING e.message_id, e.run, e.prior_attempts + e.attempts AS attempt),
        -- A row that a person changed may count fewer attempts than the log has.
        settled AS (
            SELECT a.message_id, a.run,
                   greatest(a.attempt, 1 + (SELECT max(d.attempt) FROM delivery_log_%1$s d
                                            WHERE d.consumer_group_id = $1 AND d.message_id = a.message_id)) AS attempt
            FROM (SELECT * FROM removed UNION ALL SELECT * FROM changed) AS a),
        buried AS (
            INSERT INTO dead_letter (stream_id, consumer_group_id, message_id, run, destination)
            SELECT %1$s, $1, message_id, s.run, o.destination FROM settled s JOIN o USING (message_id)
            WHERE o.outcome IN ('exhausted', 'terminal')
            -- One that a person made ready again dies again in the same run.
            ON CONFLICT (stream_id, message_id, consumer_group_id, run)
                DO UPDATE SET created_at = excluded.created_at, destination = excluded.destination),
        logged AS (
            INSERT INTO delivery_log_%1$s
                (consumer_group_id, message_id, attempt, run, status, error, attempted_at, duration, destination)
            SELECT $1, message_id, s.attempt, s.run,
                   CASE WHEN o.outcome IN ('succeeded', 'terminal') THEN o.outcome ELSE 'failed' END, o.error,
                   clock_timestamp() - o.duration_us * interval '1 us', o.duration_us * interval '1 us', o.destination
            FROM settled s JOIN o USING (message_id) WHERE o.outcome <> 'released')
        SELECT count(*) FROM settled$sql$, p_stream) INTO v_count USING p_group, p_instance, p_exceptions;
    RETURN v_count;
END $$;

-- Registers a worker process and returns its instance. Instances that were fenced long ago hold
-- nothing any more and are forgotten.
CREATE FUNCTION register_instance(p_stream bigint, p_group bigint, p_name text, p_lease_seconds double precision) RETURNS uuid
LANGUAGE sql VOLATILE SET search_path FROM CURRENT AS $$
    DELETE FROM worker_instance WHERE consumer_group_id = p_group AND fenced_at < clock_timestamp() - interval '1 day';
    INSERT INTO worker_instance (stream_id, consumer_group_id, name, lease_seconds, lease_until)
    VALUES (p_stream, p_group, p_name, p_lease_seconds, clock_timestamp() + p_lease_seconds * interval '1 s')
    RETURNING id
$$;

-- Renews the lease; false where the instance was fenced.
CREATE FUNCTION renew_lease(p_instance uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE worker_instance SET lease_until = clock_timestamp() + lease_seconds * interval '1 s'
    WHERE id = p_instance AND fenced_at IS NULL;
    RETURN FOUND;
END $$;

-- Ends the lease at once, so that others take over what the instance still holds.
CREATE FUNCTION end_lease(p_instance uuid) RETURNS void
LANGUAGE sql VOLATILE SET search_path FROM CURRENT AS $$
    UPDATE worker_instance SET lease_until = '-infinity' WHERE id = p_instance AND fenced_at IS NULL
$$;

-- Fences the instances of the group whose lease has expired and takes over what they held: their
-- open claims become claims of p_instance, their exceptions are ready for anyone.
CREATE FUNCTION take_over(p_stream bigint, p_group bigint, p_instance uuid)
RETURNS TABLE (claim_id bigint, low bigint, high bigint, takeover integer)
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
DECLARE
    v_expired uuid[];
BEGIN
    IF NOT EXISTS (SELECT FROM worker_instance w
                   WHERE w.consumer_group_id = p_group AND w.fenced_at IS NULL AND w.lease_until < clock_timestamp()) THEN
        RETURN;
    END IF;
    PERFORM enter_group(p_group, p_instance);
    WITH fenced AS (
        UPDATE worker_instance w SET fenced_at = clock_timestamp()
        WHERE w.consumer_group_id = p_group AND w.fenced_at IS NULL AND w.lease_until < clock_timestamp() AND w.id <> p_instance
        RETURNING w.id)
    SELECT array_agg(id) INTO v_expired FROM fenced;
    IF v_expired IS NULL THEN
        RETURN;
    END IF;
    RETURN QUERY EXECUTE format($sql$
        WITH taken AS (
            INSERT INTO resolution_%1$s (claim_id, outcome)
            SELECT c.id, 'taken' FROM claim_%1$s c
            WHERE c.instance = ANY ($1) AND NOT EXISTS (SELECT FROM resolution_%1$s r WHERE r.claim_id = c.id)
            ORDER BY c.id
            ON CONFLICT DO NOTHING
            RETURNING claim_id)
        INSERT INTO claim_%1$s AS n (consumer_group_id, takeover, low, high, instance)
        SELECT c.consumer_group_id, c.takeover + 1, c.low, c.high, $2
        FROM taken t JOIN claim_%1$s c ON c.id = t.claim_id
        ORDER BY c.low
        RETURNING n.id, n.low, n.high, n.takeover$sql$, p_stream) USING v_expired, p_instance;
    EXECUTE format($sql$
        UPDATE exception_queue_%s
        SET status = 'ready', claimed_by = NULL, crashes = crashes + 1,
            next_attempt_at = clock_timestamp(), updated_at = clock_timestamp()
        WHERE status = 'inflight' AND claimed_by = ANY ($1)$sql$, p_stream) USING v_expired;
END $$;

-- Hands open claims to the other workers of the group: they become claims of an instance whose
-- lease has ended already, so that whoever looks next takes them over.
CREATE FUNCTION give_back(p_stream bigint, p_group bigint, p_instance uuid, p_claims bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
DECLARE
    v_former uuid;
    v_count  bigint;
BEGIN
    PERFORM enter_group(p_group, p_instance);
    EXECUTE format($sql$
        INSERT INTO resolution_%1$s (claim_id, outcome)
        SELECT id, 'taken' FROM claim_%1$s WHERE id = ANY ($1) AND instance = $2 ORDER BY id
        ON CONFLICT DO NOTHING$sql$, p_stream) USING p_claims, p_instance;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_count <> cardinality(p_claims) THEN
        RAISE EXCEPTION 'worker instance % has lost its lease', p_instance USING ERRCODE = 'SS001';
    END IF;
    INSERT INTO worker_instance (stream_id, consumer_group_id, name, lease_seconds, lease_until)
    SELECT stream_id, consumer_group_id, name, lease_seconds, '-infinity' FROM worker_instance WHERE id = p_instance
    RETURNING id INTO v_former;
    EXECUTE format($sql$
        INSERT INTO claim_%1$s (consumer_group_id, takeover, low, high, instance)
        SELECT consumer_group_id, takeover + 1, low, high, $2 FROM claim_%1$s WHERE id = ANY ($1)$sql$, p_stream)
        USING p_claims, v_former;
END $$;
