-- Publishing from any language, inside the caller's own transaction.

-- The id of a stream that the caller may publish to. SET ROLE is honoured; a caller that is
-- itself a SECURITY DEFINER function counts as its session's user.
CREATE FUNCTION publishable_stream(p_name text) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    v_caller name := coalesce(nullif(current_setting('role'), 'none'), session_user);
    v_stream bigint;
BEGIN
    SELECT id INTO v_stream FROM stream_config WHERE name = p_name;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'stream "%" does not exist', p_name
            USING ERRCODE = 'undefined_object', HINT = 'Apply a Stream resource with this streamName first.';
    END IF;
    IF NOT has_any_column_privilege(v_caller, format('message_log_%s', v_stream), 'INSERT') THEN
        RAISE EXCEPTION 'role "%" may not publish to stream "%"', v_caller, p_name
            USING ERRCODE = 'insufficient_privilege',
                  HINT = format('GRANT INSERT (payload, key, headers) ON %I.message_log_%s TO the role.', current_schema, v_stream);
    END IF;
    RETURN v_stream;
END $$;

CREATE FUNCTION publish(
    stream text, payload jsonb, key text DEFAULT NULL, headers jsonb DEFAULT NULL, idempotency_key text DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    v_stream bigint := publishable_stream(stream);
    v_known  bigint;
    v_id     bigint;
    v_new    bigint;
BEGIN
    IF idempotency_key IS NOT NULL THEN
        LOOP
            -- A concurrent publish with the same key waits here until the other one has ended.
            EXECUTE format('INSERT INTO idempotency_key_%s (key) VALUES ($1) ON CONFLICT DO NOTHING', v_stream)
                USING idempotency_key;
            GET DIAGNOSTICS v_new = ROW_COUNT;
            EXIT WHEN v_new = 1;
            EXECUTE format('SELECT message_id FROM idempotency_key_%s WHERE key = $1', v_stream)
                INTO v_known USING idempotency_key;
            -- Null where retention has forgotten the key just now.
            IF v_known IS NOT NULL THEN
                RETURN v_known;
            END IF;
        END LOOP;
    END IF;
    EXECUTE format('INSERT INTO message_log_%s (payload, key, headers) VALUES ($1, $2, $3) RETURNING id', v_stream)
        INTO v_id USING payload, key, headers;
    IF idempotency_key IS NOT NULL THEN
        EXECUTE format('UPDATE idempotency_key_%s SET message_id = $2 WHERE key = $1', v_stream)
            USING idempotency_key, v_id;
    END IF;
    RETURN v_id;
END $$;
COMMENT ON FUNCTION publish IS
    'Appends one message in the transaction of the caller and returns its id; the same id again for an idempotency key that was used before.';

CREATE FUNCTION publish_batch(
    stream text, payloads jsonb[], keys text[] DEFAULT NULL, headers jsonb[] DEFAULT NULL
) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    v_stream bigint := publishable_stream(stream);
    v_ids    bigint[];
BEGIN
    IF cardinality(keys) <> cardinality(payloads) OR cardinality(headers) <> cardinality(payloads) THEN
        RAISE EXCEPTION 'keys and headers must have as many elements as payloads (%)', cardinality(payloads)
            USING ERRCODE = 'array_subscript_error';
    END IF;
    EXECUTE format($sql$
        WITH appended AS (
            INSERT INTO message_log_%s (payload, key, headers)
            SELECT m.payload, m.key, m.headers
            FROM unnest($1, $2, $3) WITH ORDINALITY AS m (payload, key, headers, place)
            ORDER BY m.place
            RETURNING id)
        SELECT coalesce(array_agg(id ORDER BY id), '{}') FROM appended$sql$, v_stream)
        INTO v_ids USING payloads, keys, headers;
    RETURN v_ids;
END $$;
COMMENT ON FUNCTION publish_batch IS
    'Appends messages in the order of the arrays, in the transaction of the caller, and returns their ids in that order.';

-- Both check the right of the caller on the stream themselves.
REVOKE EXECUTE ON FUNCTION publishable_stream(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION publish(text, jsonb, text, jsonb, text), publish_batch(text, jsonb[], text[], jsonb[]) TO PUBLIC;
