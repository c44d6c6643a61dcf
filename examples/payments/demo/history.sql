-- Inspect one casualty in full, with its per-attempt history.
SELECT m.payload, d.attempts, d.last_error,
       l.attempt, l.status, l.error, l.attempted_at
FROM sqlstreams.exception_queue_1 d
JOIN sqlstreams.message_log_1 m ON m.id = d.message_id
LEFT JOIN sqlstreams.delivery_log_1 l ON (l.consumer_group_id, l.message_id) = (d.consumer_group_id, d.message_id)
WHERE d.status = 'dead'
ORDER BY d.updated_at DESC, l.attempt;
