-- The tables of one stream: made, topped up, rotated and dropped.

-- Keeps the exception counters right whoever changes the queue, a person at psql included.
CREATE FUNCTION count_exceptions() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    v_stream bigint := TG_ARGV[0]::bigint;
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO statistics_delta
        SELECT v_stream, consumer_group_id, status, count(*) FROM new_rows GROUP BY 2, 3;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO statistics_delta
        SELECT v_stream, consumer_group_id, status, -count(*) FROM old_rows GROUP BY 2, 3;
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO statistics_delta
        SELECT v_stream, consumer_group_id, status, sum(change)
        FROM (SELECT consumer_group_id, status, 1 AS change FROM new_rows
              UNION ALL
              SELECT consumer_group_id, status, -1 FROM old_rows) AS changes
        GROUP BY 2, 3 HAVING sum(change) <> 0;
    ELSE
        -- Deleting the rows instead would miss those that are being folded just now.
        INSERT INTO statistics_delta
        SELECT v_stream, consumer_group_id, counter, -sum(delta) FROM statistics_delta
        WHERE stream_id = v_stream GROUP BY 2, 3 HAVING sum(delta) <> 0;
    END IF;
    RETURN NULL;
END $$;

-- The bytes of a value as Postgres keeps it in memory. A value that comes out of another table is
-- still compressed, and its size on disk would pass a limit that it fails when it is restored from
-- a dump; put into an array it is made anew, without compression.
CREATE FUNCTION jsonb_size(p_value jsonb) RETURNS integer
LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE WHEN pg_column_compression(p_value) IS NULL THEN pg_column_size(p_value)
            ELSE pg_column_size(jsonb_build_array(p_value)) END;

-- About how many bytes of memory a message takes, without reading what is stored out of line: what
-- is compressed is taken to be sixteen times as large, up to the limit of a payload.
CREATE FUNCTION message_bytes(p_payload jsonb, p_headers jsonb) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE WHEN pg_column_compression(p_payload) IS NULL THEN pg_column_size(p_payload)
            ELSE least(1048576, pg_column_size(p_payload)::bigint * 16) END
       + coalesce(CASE WHEN pg_column_compression(p_headers) IS NULL THEN pg_column_size(p_headers)
                       ELSE least(65536, pg_column_size(p_headers)::bigint * 16) END, 0);

-- Makes what is missing of a stream's tables. Where nothing is, it takes no lock on them.
CREATE FUNCTION create_stream_tables(p_stream bigint) RETURNS boolean
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    v_queue_is_new boolean := to_regclass('exception_queue_' || p_stream) IS NULL;
    v_passed       bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM unnest(ARRAY['message_log', 'idempotency_key', 'exception_queue',
                                            'delivery_log', 'claim', 'resolution']) AS prefix
                   WHERE to_regclass(format('%s_%s', prefix, p_stream)) IS NULL) THEN
        RETURN false;
    END IF;
    EXECUTE format($ddl$
        CREATE TABLE IF NOT EXISTS message_log_%1$s (
            id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            payload       jsonb NOT NULL,
            created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
            key           text,
            headers       jsonb,
            only_group_id bigint,
            CONSTRAINT payload_exceeds_1048576_bytes CHECK (jsonb_size(payload) <= 1048576),
            CONSTRAINT headers_is_no_object CHECK (jsonb_typeof(headers) = 'object'),
            CONSTRAINT headers_exceed_65536_bytes CHECK (jsonb_size(headers) <= 65536),
            CONSTRAINT key_exceeds_1024_bytes CHECK (octet_length(key) <= 1024)
        ) PARTITION BY RANGE (id)$ddl$, p_stream);
    IF EXISTS (SELECT FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)) THEN
        EXECUTE format('ALTER TABLE message_log_%s ALTER COLUMN payload SET COMPRESSION lz4', p_stream);
    END IF;

    EXECUTE format($ddl$
        CREATE TABLE IF NOT EXISTS idempotency_key_%1$s (
            key        text PRIMARY KEY CHECK (octet_length(key) <= 1024),
            message_id bigint,
            created_at timestamptz NOT NULL DEFAULT clock_timestamp()
        );
        CREATE INDEX IF NOT EXISTS idempotency_key_%1$s_created_at ON idempotency_key_%1$s (created_at);

        CREATE TABLE IF NOT EXISTS exception_queue_%1$s (
            consumer_group_id bigint NOT NULL,
            message_id        bigint NOT NULL,
            status            text NOT NULL CHECK (status IN ('ready', 'inflight', 'deferred', 'dead')),
            attempts          integer NOT NULL DEFAULT 0 CHECK (attempts >= 0),
            run               integer NOT NULL DEFAULT 1 CHECK (run >= 1),
            prior_attempts    integer NOT NULL DEFAULT 0 CHECK (prior_attempts >= 0),
            crashes           integer NOT NULL DEFAULT 0 CHECK (crashes >= 0),
            last_error        text,
            error_fingerprint text,
            next_attempt_at   timestamptz,
            claimed_by        uuid,
            created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
            updated_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
            PRIMARY KEY (consumer_group_id, message_id),
            CHECK ((status = 'inflight') = (claimed_by IS NOT NULL)),
            CHECK ((status IN ('ready', 'deferred')) = (next_attempt_at IS NOT NULL))
        ) WITH (fillfactor = 85);
        CREATE INDEX IF NOT EXISTS exception_queue_%1$s_due
            ON exception_queue_%1$s (consumer_group_id, next_attempt_at) WHERE status IN ('ready', 'deferred');
        CREATE INDEX IF NOT EXISTS exception_queue_%1$s_inflight
            ON exception_queue_%1$s (claimed_by) WHERE status = 'inflight';
        CREATE INDEX IF NOT EXISTS exception_queue_%1$s_unresolved
            ON exception_queue_%1$s (consumer_group_id, message_id) WHERE status <> 'dead';
        CREATE INDEX IF NOT EXISTS exception_queue_%1$s_dead
            ON exception_queue_%1$s (consumer_group_id, updated_at) WHERE status = 'dead';
        CREATE INDEX IF NOT EXISTS exception_queue_%1$s_message ON exception_queue_%1$s (message_id);

        CREATE TABLE IF NOT EXISTS delivery_log_%1$s (
            consumer_group_id bigint NOT NULL,
            message_id        bigint NOT NULL,
            attempt           integer NOT NULL CHECK (attempt >= 1),
            run               integer NOT NULL CHECK (run >= 1),
            status            text NOT NULL CHECK (status IN ('succeeded', 'failed', 'terminal')),
            error             text,
            attempted_at      timestamptz NOT NULL,
            duration          interval NOT NULL,
            destination       text,
            PRIMARY KEY (consumer_group_id, message_id, attempt)
        );
        CREATE INDEX IF NOT EXISTS delivery_log_%1$s_message ON delivery_log_%1$s (message_id);

        CREATE TABLE IF NOT EXISTS claim_%1$s (
            id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            consumer_group_id bigint NOT NULL,
            takeover          integer NOT NULL DEFAULT 0 CHECK (takeover >= 0),
            low               bigint NOT NULL,
            high              bigint NOT NULL CHECK (high >= low),
            instance          uuid NOT NULL,
            claimed_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
            UNIQUE (consumer_group_id, takeover, low)
        );
        CREATE INDEX IF NOT EXISTS claim_%1$s_instance ON claim_%1$s (instance);
        COMMENT ON COLUMN claim_%1$s.takeover IS
            '0 for the claim that moved the position of the group on; counted up whenever the range, or a part of it, is claimed again.';

        CREATE TABLE IF NOT EXISTS resolution_%1$s (
            claim_id    bigint PRIMARY KEY,
            outcome     text NOT NULL CHECK (outcome IN ('acked', 'taken')),
            resolved_at timestamptz NOT NULL DEFAULT clock_timestamp()
        );

        CREATE OR REPLACE TRIGGER count_inserted AFTER INSERT ON exception_queue_%1$s
            REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION count_exceptions(%1$s);
        CREATE OR REPLACE TRIGGER count_deleted AFTER DELETE ON exception_queue_%1$s
            REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION count_exceptions(%1$s);
        CREATE OR REPLACE TRIGGER count_updated AFTER UPDATE ON exception_queue_%1$s
            REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
            FOR EACH STATEMENT EXECUTE FUNCTION count_exceptions(%1$s);
        CREATE OR REPLACE TRIGGER count_truncated AFTER TRUNCATE ON exception_queue_%1$s
            FOR EACH STATEMENT EXECUTE FUNCTION count_exceptions(%1$s)$ddl$, p_stream);

    -- A log that was dropped and is made anew must not give out ids again that groups have passed.
    EXECUTE format($sql$
        SELECT greatest((SELECT max(high) FROM claim_%1$s), (SELECT max(message_id) FROM exception_queue_%1$s),
                        (SELECT max(message_id) FROM delivery_log_%1$s),
                        (SELECT max(start_position) FROM consumer_group_config WHERE stream_id = %1$s),
                        (SELECT max(message_id) FROM dead_letter WHERE stream_id = %1$s))$sql$, p_stream) INTO v_passed;
    IF v_passed > last_drawn_id(p_stream) THEN
        PERFORM setval(pg_get_serial_sequence('message_log_' || p_stream, 'id')::regclass, v_passed);
    END IF;
    -- A queue that was dropped has not told its counters.
    IF v_queue_is_new THEN
        DELETE FROM statistics_delta WHERE stream_id = p_stream;
    END IF;
    PERFORM ensure_partitions(p_stream, 0);
    RETURN true;
END $$;

-- The greatest id that the log's sequence has given out; 0 before the first.
CREATE FUNCTION last_drawn_id(p_stream bigint) RETURNS bigint
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('message_log_' || p_stream, 'id')::regclass), 0)
$$;

-- Creates the partitions that the next p_ahead ids need, two at the least. CREATE + ATTACH does
-- not wait behind producers, where CREATE ... PARTITION OF would. Returns how many were made.
CREATE FUNCTION ensure_partitions(p_stream bigint, p_ahead bigint) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    v_size  bigint;
    v_first bigint;
    v_last  bigint;
    v_made  integer := 0;
BEGIN
    SELECT partition_size INTO v_size FROM stream_config WHERE id = p_stream;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no stream has the id %', p_stream USING ERRCODE = 'undefined_object';
    END IF;
    v_first := last_drawn_id(p_stream) / v_size;
    v_last := least(v_first + greatest(2, (p_ahead + v_size - 1) / v_size), v_first + 64);
    IF to_regclass(format('message_log_%s_p%s', p_stream, v_last)) IS NOT NULL
       OR NOT pg_try_advisory_xact_lock(hashtextextended(format('%s.partitions', current_schema), p_stream)) THEN
        RETURN 0;
    END IF;
    FOR k IN v_first .. v_last LOOP
        CONTINUE WHEN to_regclass(format('message_log_%s_p%s', p_stream, k)) IS NOT NULL;
        EXECUTE format('CREATE TABLE message_log_%1$s_p%2$s (LIKE message_log_%1$s
            INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE INCLUDING COMPRESSION)', p_stream, k);
        EXECUTE format('ALTER TABLE message_log_%1$s ATTACH PARTITION message_log_%1$s_p%2$s
            FOR VALUES FROM (%3$s) TO (%4$s)', p_stream, k, k * v_size + 1, (k + 1) * v_size + 1);
        v_made := v_made + 1;
    END LOOP;
    RETURN v_made;
END $$;

-- Empties the ledger of claims of all that is resolved, once it has p_threshold claims. TRUNCATE
-- gives back the room at once, also while an old snapshot holds VACUUM back. Kept are the open
-- claims and each group's newest, which is its position. Gives up rather than wait for a lock.
CREATE FUNCTION rotate_claims(p_stream bigint, p_threshold bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '50ms' AS $$
DECLARE
    v_claims bigint;
BEGIN
    EXECUTE format('SELECT count(*) FROM (SELECT FROM claim_%s LIMIT $1) AS c', p_stream)
        INTO v_claims USING p_threshold;
    IF v_claims < p_threshold THEN
        RETURN false;
    END IF;
    EXECUTE format('LOCK TABLE claim_%1$s, resolution_%1$s IN ACCESS EXCLUSIVE MODE', p_stream);
    EXECUTE format($sql$
        CREATE TEMPORARY TABLE kept ON COMMIT DROP AS
        SELECT c.*, r.outcome, r.resolved_at
        FROM claim_%1$s c LEFT JOIN resolution_%1$s r ON r.claim_id = c.id
        WHERE r.claim_id IS NULL
           OR c.id IN (SELECT DISTINCT ON (consumer_group_id) id FROM claim_%1$s
                       WHERE takeover = 0 ORDER BY consumer_group_id, low DESC)$sql$, p_stream);
    -- A dump whose snapshot is older than this finds the ledger empty. It then has where the group
    -- stood at the rotation before, so that a database restored from it repeats some messages and
    -- not all of them.
    EXECUTE $sql$
        UPDATE consumer_group_config g SET start_position = greatest(g.start_position, k.position)
        FROM (SELECT consumer_group_id, coalesce(min(low) FILTER (WHERE outcome IS NULL) - 1, max(high)) AS position
              FROM pg_temp.kept GROUP BY 1) AS k
        WHERE g.id = k.consumer_group_id$sql$;
    EXECUTE format('TRUNCATE claim_%1$s, resolution_%1$s', p_stream);
    EXECUTE format($sql$
        INSERT INTO claim_%1$s (id, consumer_group_id, takeover, low, high, instance, claimed_at)
        OVERRIDING SYSTEM VALUE
        SELECT id, consumer_group_id, takeover, low, high, instance, claimed_at FROM pg_temp.kept$sql$, p_stream);
    EXECUTE format($sql$
        INSERT INTO resolution_%1$s SELECT id, outcome, resolved_at FROM pg_temp.kept WHERE outcome IS NOT NULL$sql$, p_stream);
    DROP TABLE pg_temp.kept;
    RETURN true;
END $$;

CREATE FUNCTION drop_stream_tables(p_stream bigint) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    EXECUTE format('DROP TABLE IF EXISTS message_log_%1$s, idempotency_key_%1$s, exception_queue_%1$s,
        delivery_log_%1$s, claim_%1$s, resolution_%1$s', p_stream);
    DELETE FROM dead_letter WHERE stream_id = p_stream;
    DELETE FROM statistics_delta WHERE stream_id = p_stream;
    DELETE FROM worker_instance WHERE stream_id = p_stream;
    DELETE FROM consumer_group_config WHERE stream_id = p_stream;
    DELETE FROM stream_config WHERE id = p_stream;
END $$;

-- Forgets a group with all that belongs to it; the messages stay for the other groups.
CREATE FUNCTION drop_group_rows(p_group bigint) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    v_stream bigint;
BEGIN
    SELECT stream_id INTO STRICT v_stream FROM consumer_group_config WHERE id = p_group;
    EXECUTE format('DELETE FROM resolution_%1$s r USING claim_%1$s c
        WHERE c.id = r.claim_id AND c.consumer_group_id = $1', v_stream) USING p_group;
    EXECUTE format('DELETE FROM claim_%s WHERE consumer_group_id = $1', v_stream) USING p_group;
    EXECUTE format('DELETE FROM exception_queue_%s WHERE consumer_group_id = $1', v_stream) USING p_group;
    EXECUTE format('DELETE FROM delivery_log_%s WHERE consumer_group_id = $1', v_stream) USING p_group;
    DELETE FROM dead_letter WHERE consumer_group_id = p_group;
    DELETE FROM statistics_delta WHERE consumer_group_id = p_group;
    DELETE FROM worker_instance WHERE consumer_group_id = p_group;
    DELETE FROM consumer_group_config WHERE id = p_group;
END $$;

REVOKE EXECUTE ON FUNCTION count_exceptions(), create_stream_tables(bigint), ensure_partitions(bigint, bigint),
    rotate_claims(bigint, bigint), drop_stream_tables(bigint), drop_group_rows(bigint) FROM PUBLIC;
