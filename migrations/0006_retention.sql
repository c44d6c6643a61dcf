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
        RAISE EXCEPTION 'stream % is not owned by %', p_stream, p_owner USING ERRCODE = 'insufficient_privilege',
            HINT = 'The Stream resource was deleted or the stream was handed to another one.';
    END IF;
    RETURN v_config;
END $$;

-- The groups that have not finished all messages up to p_high, with why.
CREATE FUNCTION groups_behind(p_stream bigint, p_high bigint) RETURNS TABLE (group_name text, reason text)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    v_group      consumer_group_config;
    v_position   bigint;
    v_unresolved bigint;
BEGIN
    FOR v_group IN SELECT * FROM consumer_group_config g WHERE g.stream_id = p_stream ORDER BY g.name LOOP
        group_name := v_group.name;
        v_position := group_position(p_stream, v_group.id);
        EXECUTE format($sql$
            SELECT min(low) - 1 FROM claim_%1$s c
            WHERE consumer_group_id = $1 AND NOT EXISTS (SELECT FROM resolution_%1$s r WHERE r.claim_id = c.id)$sql$, p_stream)
            INTO v_unresolved USING v_group.id;
        IF least(v_position, v_unresolved) < p_high THEN
            reason := format('has finished messages up to %s', least(v_position, v_unresolved));
            RETURN NEXT;
            CONTINUE;
        END IF;
        EXECUTE format($sql$
            SELECT message_id FROM exception_queue_%s
            WHERE consumer_group_id = $1 AND status <> 'dead' AND message_id <= $2 ORDER BY message_id LIMIT 1$sql$, p_stream)
            INTO v_unresolved USING v_group.id, p_high;
        IF v_unresolved IS NOT NULL THEN
            reason := format('is still retrying message %s', v_unresolved);
            RETURN NEXT;
        END IF;
    END LOOP;
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

-- Drops the oldest partition if no more ids can come into it, its newest message is past the
-- stream's ttl and every group has finished it.
--   dropped      its name, or null
--   behind       [{group, reason}] what keeps it although it is past the ttl
CREATE FUNCTION drop_oldest_partition(p_stream bigint, p_owner uuid, OUT dropped text, OUT low bigint, OUT high bigint, OUT behind jsonb)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '50ms' AS $$
DECLARE
    v_config stream_config := check_stream_owner(p_stream, p_owner);
    v_name   text;
    v_newest timestamptz;
BEGIN
    SELECT p.name, p.low, p.high INTO v_name, low, high FROM log_partitions(p_stream) p ORDER BY p.number LIMIT 1;
    IF v_config.retention_ttl_seconds IS NULL OR v_name IS NULL OR high > last_drawn_id(p_stream) THEN
        RETURN;
    END IF;
    EXECUTE format('SELECT created_at FROM %I ORDER BY id DESC LIMIT 1', v_name) INTO v_newest;
    IF v_newest > clock_timestamp() - v_config.retention_ttl_seconds * interval '1 s' THEN
        RETURN;
    END IF;
    IF NOT v_config.drop_unconsumed THEN
        SELECT jsonb_agg(jsonb_build_object('group', group_name, 'reason', reason)) INTO behind FROM groups_behind(p_stream, high);
        IF behind IS NOT NULL THEN
            RETURN;
        END IF;
    END IF;
    -- An open transaction that wrote into the partition makes this fail; what it commits is then
    -- seen by the next try.
    EXECUTE format('LOCK TABLE ONLY message_log_%s IN ACCESS EXCLUSIVE MODE', p_stream);
    EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', v_name);
    EXECUTE format('SELECT created_at FROM %I ORDER BY id DESC LIMIT 1', v_name) INTO v_newest;
    IF v_newest > clock_timestamp() - v_config.retention_ttl_seconds * interval '1 s'
       OR (NOT v_config.drop_unconsumed AND EXISTS (SELECT FROM groups_behind(p_stream, high))) THEN
        RETURN;
    END IF;
    EXECUTE format('DROP TABLE %I', v_name);
    dropped := v_name;
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

-- Lets a quiet stream go on in its next partition once the oldest message of the current one is
-- past the ttl, so that the current one can be dropped when its newest is. The ids in between are
-- never given out. Producers are held off while the sequence moves.
CREATE FUNCTION close_current_partition(p_stream bigint, p_owner uuid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '50ms' AS $$
DECLARE
    v_config    stream_config := check_stream_owner(p_stream, p_owner);
    v_partition record;
    v_oldest    timestamptz;
BEGIN
    IF v_config.retention_ttl_seconds IS NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('LOCK TABLE message_log_%s IN SHARE ROW EXCLUSIVE MODE', p_stream);
    SELECT * INTO v_partition FROM log_partitions(p_stream) p WHERE last_drawn_id(p_stream) BETWEEN p.low AND p.high - 1;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    EXECUTE format('SELECT created_at FROM %I ORDER BY id LIMIT 1', v_partition.name) INTO v_oldest;
    IF v_oldest IS NULL OR v_oldest > clock_timestamp() - v_config.retention_ttl_seconds * interval '1 s' THEN
        RETURN false;
    END IF;
    PERFORM setval(pg_get_serial_sequence('message_log_' || p_stream, 'id')::regclass, v_partition.high);
    RETURN true;
END $$;

REVOKE EXECUTE ON FUNCTION check_stream_owner(bigint, uuid), drop_oldest_partition(bigint, uuid),
    sweep_dropped(bigint, uuid, bigint), close_current_partition(bigint, uuid) FROM PUBLIC;
