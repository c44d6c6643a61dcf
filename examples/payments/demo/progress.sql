-- How each group stands, from the tables themselves.
SELECT format('%s lag %s, retrying %s, dead %s', g.name, p.backlog + p.inflight,
              count(e) FILTER (WHERE e.status <> 'dead'), count(e) FILTER (WHERE e.status = 'dead'))
FROM sqlstreams.consumer_group_config g
CROSS JOIN LATERAL sqlstreams.group_progress(g.id) p
LEFT JOIN sqlstreams.exception_queue_1 e ON e.consumer_group_id = g.id
WHERE g.stream_id = 1
GROUP BY g.name, p.backlog, p.inflight
ORDER BY g.name;
