-- SQLSTATE SS002: the stream is not owned by the resource that is acted for.

-- Dropping whole partitions of a log. Each step proves in its own transaction that the stream is
-- still owned by the resource it was started for, and gives up rather than wait for a lock that
-- would make producers queue behind it (SQLSTATE 55P03; try again).

CREATE FUNCTION check_stream_owner(p_stream bigint, p_owner uuid) RETURNS stream_config
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    v_config stream_config;
BEGIN
    SELECT * INTO v_config FROM stream_config WHERE id = p_stream AND owner_uid = p_owner FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'stream % is not owned by %', p_stream, p_owner USING ERRCODE = 'SS002',
            HINT = 'The Stream resource was deleted or the stream was handed to another one.';
    END IF;
    RETURN v_config;
END $$;

-- The groups that have not finished all messages up to p_high, with why.
CREATE FUNCTION groups_behind(p_stream bigint, p_high bigint) RETURNS TABLE (group_name text, reason text)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    RETURN QUERY EXECUTE format($sql$
        SELECT s.name, CASE WHEN s.finished < $2 THEN format('has finished messages up to %%s', s.finished)
                            ELSE format('is still retrying message %%s', s.retrying) END
        FROM (
            SELECT g.name,
                least(coalesce((SELECT c.high FROM claim_%1$s c
                                WHERE c.consumer_group_id = g.id AND c.takeover = 0 ORDER BY c.low DESC LIMIT 1),
                               g.start_position),
                      (SELECT min(c.low) - 1 FROM claim_%1$s c
                       WHERE c.consumer_group_id = g.id
                         AND NOT EXISTS (SELECT FROM resolution_%1$s r WHERE r.claim_id = c.id))) AS finished,
                (SELECT e.message_id FROM exception_queue_%1$s e
                 WHERE e.consumer_group_id = g.id AND e.status <> 'dead' AND e.message_id <= $2
                 ORDER BY e.message_id LIMIT 1) AS retrying
            FROM consumer_group_config g WHERE g.stream_id = $1) AS s
        WHERE s.finished < $2 OR s.retrying IS NOT NULL
        ORDER BY s.name$sql$, p_stream) USING p_stream, p_high;
END $$;

-- The partitions of a log, oldest first.
CREATE FUNCTION log_partitions(p_stream bigint) RETURNS TABLE (number bigint, name text, low bigint, high bigint)
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT p.number, p.name, p.number * s.partition_size + 1, (p.number + 1) * s.partition_size
    FROM stream_config s, LATERAL (
        SELECT c.relname::text AS name, substring(c.relname FROM '_p(\d+)$')::bigint AS number
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = to_regclass('message_log_' || s.id)) AS p
    WHERE s.id = p_stream AND p.number IS NOT NULL
    ORDER BY p.number
$$;

-- The stream that a retention job is to look after, with the report of the run before.
CREATE FUNCTION retention_stream(p_name text, p_owner uuid) RETURNS TABLE (id bigint, report jsonb, at timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    RETURN QUERY SELECT s.id, s.retention_report, clock_timestamp() FROM stream_config s
                 WHERE s.name = p_name AND s.owner_uid = p_owner;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no stream "%" is owned by %', p_name, p_owner USING ERRCODE = 'SS002',
            HINT = 'The Stream resource was deleted or the stream was handed to another one.';
    END IF;
END $$;

CREATE FUNCTION store_retention_report(p_stream bigint, p_owner uuid, p_report jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM check_stream_owner(p_stream, p_owner);
    UPDATE stream_config SET retention_report = p_report WHERE id = p_stream;
END $$;

-- The oldest partitions into which no more ids can come and whose newest message is past the
-- stream's ttl, at most p_limit.
--   behind       [{group, reason}] the groups that have not finished it; null where none counts
CREATE FUNCTION expired_partitions(p_stream bigint, p_owner uuid, p_limit bigint)
RETURNS TABLE (name text, low bigint, high bigint, size_bytes bigint, behind jsonb)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    v_config    stream_config := check_stream_owner(p_stream, p_owner);
    v_last      bigint := last_drawn_id(p_stream);
    v_newest    bigint;
    v_newest_at timestamptz;
BEGIN
    IF v_config.retention_ttl_seconds IS NULL THEN
        RETURN;
    END IF;
    FOR name, low, high IN
        SELECT p.name, p.low, p.high FROM log_partitions(p_stream) p ORDER BY p.number LIMIT p_limit
    LOOP
        EXIT WHEN high > v_last;
        EXECUTE format('SELECT id, created_at FROM %I ORDER BY id DESC LIMIT 1', name) INTO v_newest, v_newest_at;
        EXIT WHEN v_newest_at > clock_timestamp() - v_config.retention_ttl_seconds * interval '1 s';
        behind := NULL;
        IF NOT v_config.drop_unconsumed THEN
            -- Up to the newest message rather than the end of the partition: nothing may ever come
            -- after it, and groups do not claim ids that nobody has.
            SELECT jsonb_agg(jsonb_build_object('group', b.group_name, 'reason', b.reason)) INTO behind
            FROM groups_behind(p_stream, v_newest) b;
        END IF;
        size_bytes := pg_total_relation_size(to_regclass(quote_ident(name)));
        RETURN NEXT;
    END LOOP;
END $$;

-- Drops the oldest partition where it is expired and every group has finished it.
--   dropped      its name, or null
--   behind       [{group, reason}] what keeps it although it is past the ttl
CREATE FUNCTION drop_oldest_partition(
    p_stream bigint, p_owner uuid,
    OUT dropped text, OUT low bigint, OUT high bigint, OUT size_bytes bigint, OUT behind jsonb)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '30ms' AS $$
DECLARE
    v_name  text;
    v_again text;
BEGIN
    SELECT p.name, p.low, p.high, p.size_bytes, p.behind INTO v_name, low, high, size_bytes, behind
    FROM expired_partitions(p_stream, p_owner, 1) p;
    IF v_name IS NULL OR behind IS NOT NULL THEN
        RETURN;
    END IF;
    -- An open transaction that wrote to the log makes this fail; what it commits is then seen by
    -- the next try. Producers queue behind the first lock, so the second does not wait.
    EXECUTE format('LOCK TABLE ONLY message_log_%s IN ACCESS EXCLUSIVE MODE', p_stream);
    EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE NOWAIT', v_name);
    SELECT p.name, p.behind INTO v_again, behind FROM expired_partitions(p_stream, p_owner, 1) p;
    IF v_again = v_name AND behind IS NULL THEN
        EXECUTE format('DROP TABLE %I', v_name);
        dropped := v_name;
    END IF;
END $$;

-- Removes, at most p_limit rows a table, what belongs to messages whose partition is gone, and
-- idempotency keys past their ttl. Returns how many rows went; call again until it is 0.
CREATE FUNCTION sweep_dropped(p_stream bigint, p_owner uuid, p_limit bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    v_config stream_config := check_stream_owner(p_stream, p_owner);
    v_oldest bigint;
    v_count  bigint;
    v_total  bigint := 0;
    v_table  text;
BEGIN
    SELECT min(p.low) INTO v_oldest FROM log_partitions(p_stream) p;
    FOREACH v_table IN ARRAY ARRAY['exception_queue_' || p_stream, 'delivery_log_' || p_stream] LOOP
        EXECUTE format('DELETE FROM %1$I WHERE ctid = ANY (ARRAY(SELECT ctid FROM %1$I WHERE message_id < $1 LIMIT $2))', v_table)
            USING v_oldest, p_limit;
        GET DIAGNOSTICS v_count = ROW_COUNT;
        v_total := v_total + v_count;
    END LOOP;
    DELETE FROM dead_letter WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM dead_letter
        WHERE stream_id = p_stream AND message_id < v_oldest AND archive_key IS NULL LIMIT p_limit));
    GET DIAGNOSTICS v_count = ROW_COUNT;
    v_total := v_total + v_count;
    EXECUTE format('DELETE FROM idempotency_key_%1$s WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM idempotency_key_%1$s WHERE created_at < $1 LIMIT $2))', p_stream)
        USING clock_timestamp() - v_config.idempotency_key_ttl_seconds * interval '1 s', p_limit;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_total + v_count;
END $$;

-- The last id of the partition that the stream writes to, where its oldest message is past the ttl.
CREATE FUNCTION closable_partition(p_stream bigint, p_ttl_seconds bigint, OUT high bigint)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    v_name   text;
    v_oldest timestamptz;
BEGIN
    SELECT p.name, p.high INTO v_name, high FROM log_partitions(p_stream) p
    WHERE last_drawn_id(p_stream) BETWEEN p.low AND p.high - 1;
    IF FOUND THEN
        EXECUTE format('SELECT created_at FROM %I ORDER BY id LIMIT 1', v_name) INTO v_oldest;
        IF v_oldest IS NULL OR v_oldest > clock_timestamp() - p_ttl_seconds * interval '1 s' THEN
            high := NULL;
        END IF;
    END IF;
END $$;

-- Lets a quiet stream go on in its next partition once the oldest message of the current one is
-- past the ttl, so that the current one can be dropped when its newest is. The ids in between are
-- never given out. Producers are held off while the sequence moves.
CREATE FUNCTION close_current_partition(p_stream bigint, p_owner uuid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '30ms' AS $$
DECLARE
    v_config stream_config := check_stream_owner(p_stream, p_owner);
    v_high   bigint;
BEGIN
    IF v_config.retention_ttl_seconds IS NULL
       OR closable_partition(p_stream, v_config.retention_ttl_seconds) IS NULL THEN
        RETURN false;
    END IF;
    -- Ids are drawn under a lock on the log itself, so its partitions need none.
    EXECUTE format('LOCK TABLE ONLY message_log_%s IN SHARE ROW EXCLUSIVE MODE', p_stream);
    v_high := closable_partition(p_stream, v_config.retention_ttl_seconds);
    IF v_high IS NULL
       OR to_regclass(format('message_log_%s_p%s', p_stream, v_high / v_config.partition_size)) IS NULL THEN
        RETURN false;
    END IF;
    PERFORM setval(pg_get_serial_sequence('message_log_' || p_stream, 'id')::regclass, v_high);
    RETURN true;
END $$;

REVOKE EXECUTE ON FUNCTION check_stream_owner(bigint, uuid), retention_stream(text, uuid),
    store_retention_report(bigint, uuid, jsonb), expired_partitions(bigint, uuid, bigint),
    drop_oldest_partition(bigint, uuid), sweep_dropped(bigint, uuid, bigint),
    close_current_partition(bigint, uuid) FROM PUBLIC;
