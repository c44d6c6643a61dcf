-- How far a group has come.
--   head        the greatest id that can be read; claimed, committed: up to where messages were given to workers,
--               and up to where all of them are acknowledged or in the exception queue
--   backlog     messages that no worker has claimed yet, counted up to 10,000 and estimated by ids beyond
--   inflight    messages of claims that are not acknowledged yet
-- Nothing of a group that there is not.
CREATE FUNCTION group_progress(p_group bigint) RETURNS TABLE (
    head bigint, claimed bigint, committed bigint, backlog bigint, inflight bigint,
    next_attempt_at timestamptz, oldest_unresolved_at timestamptz)
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
DECLARE
    v_stream bigint;
    v_size   bigint;
    v_last   bigint;
BEGIN
    SELECT s.id, s.partition_size INTO v_stream, v_size
    FROM consumer_group_config g JOIN stream_config s ON s.id = g.stream_id WHERE g.id = p_group;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    claimed := group_position(v_stream, p_group);
    v_last := last_drawn_id(v_stream);
    EXECUTE format('SELECT id FROM message_log_%s WHERE id > $1 AND id <= $2 ORDER BY id DESC LIMIT 1', v_stream)
        INTO head USING greatest(claimed, v_last - 2 * v_size), v_last;
    head := coalesce(head, claimed);
    EXECUTE format($sql$
        SELECT count(*) FROM (SELECT FROM message_log_%s
                              WHERE id > $1 AND id <= $2 AND coalesce(only_group_id, $3) = $3 LIMIT 10001) AS m$sql$, v_stream)
        INTO backlog USING claimed, head, p_group;
    IF backlog > 10000 THEN
        backlog := head - claimed;
    END IF;
    EXECUTE format($sql$
        SELECT coalesce(min(low) - 1, $2), coalesce(sum(high - low + 1), 0)
        FROM claim_%1$s c
        WHERE consumer_group_id = $1 AND NOT EXISTS (SELECT FROM resolution_%1$s r WHERE r.claim_id = c.id)$sql$, v_stream)
        INTO committed, inflight USING p_group, claimed;
    EXECUTE format($sql$
        SELECT (SELECT min(e.next_attempt_at) FROM exception_queue_%1$s e
                WHERE e.consumer_group_id = $1 AND e.status IN ('ready', 'deferred')),
               (SELECT e.created_at FROM exception_queue_%1$s e
                WHERE e.consumer_group_id = $1 AND e.status <> 'dead' ORDER BY e.message_id LIMIT 1)$sql$, v_stream)
        INTO next_attempt_at, oldest_unresolved_at USING p_group;
    RETURN NEXT;
END $$;

-- The room that all tables of a stream take on disk, and when the oldest message kept was published.
-- Looks at one partition at a time, since the lock of each is held until the transaction ends.
CREATE FUNCTION stream_facts(p_stream bigint, OUT size_bytes bigint, OUT oldest_message_at timestamptz)
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
DECLARE
    v_partition text;
BEGIN
    SELECT coalesce(sum(pg_total_relation_size(oid)), 0) INTO size_bytes
    FROM (SELECT inhrelid AS oid FROM pg_inherits WHERE inhparent = to_regclass('message_log_' || p_stream)
          UNION ALL
          SELECT to_regclass(format('%s_%s', prefix, p_stream))
          FROM unnest(ARRAY['idempotency_key', 'exception_queue', 'delivery_log', 'claim', 'resolution']) AS prefix) AS tables;
    FOR v_partition IN SELECT p.name FROM log_partitions(p_stream) p ORDER BY p.number LOOP
        BEGIN
            EXECUTE format('SELECT created_at FROM %I ORDER BY id LIMIT 1', v_partition) INTO oldest_message_at;
        EXCEPTION WHEN undefined_table THEN
            -- Retention has dropped it since.
            CONTINUE;
        END;
        EXIT WHEN oldest_message_at IS NOT NULL;
    END LOOP;
END $$;

-- Folds the changes of each counter into one row. Counters that came to nothing go away, and those
-- of groups that are gone. One at a time; who comes second leaves it to the first.
CREATE FUNCTION compact_statistics() RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF pg_try_advisory_xact_lock(hashtextextended(format('%s.statistics', current_schema), 0)) THEN
        WITH folded AS (DELETE FROM statistics_delta RETURNING *)
        INSERT INTO statistics_delta
        SELECT stream_id, consumer_group_id, counter, sum(delta) FROM folded f
        WHERE EXISTS (SELECT FROM consumer_group_config g WHERE g.id = f.consumer_group_id)
        GROUP BY 1, 2, 3 HAVING sum(delta) <> 0;
    END IF;
END $$;

REVOKE EXECUTE ON FUNCTION compact_statistics() FROM PUBLIC;
