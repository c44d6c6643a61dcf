-- What's dying, and why? Group by error to find the pattern.
SELECT d.last_error, count(*),
       min(m.created_at) AS first_seen, max(m.created_at) AS last_seen
FROM sqlstreams.exception_queue_1 d
JOIN sqlstreams.message_log_1 m ON m.id = d.message_id
JOIN sqlstreams.consumer_group_config g ON g.id = d.consumer_group_id
WHERE g.name = 'fraud-screening' AND d.status = 'dead'
GROUP BY 1 ORDER BY 2 DESC;
