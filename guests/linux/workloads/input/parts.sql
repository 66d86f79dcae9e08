-- Parts that consist of parts, as in a CAD database: entered, looked up by index, walked, changed, deleted.
create table part (id integer primary key, kind integer, x integer, y integer, name text);
create table connection (source integer, target integer, length integer);
with recursive n(i) as (select 0 union all select i + 1 from n where i < 49999)
    insert into part select i, i % 10, i * 7919 % 50000, i * 104729 % 50000, printf('part %05d', i * 7919 % 50000) from n;
with recursive n(i) as (select 0 union all select i + 1 from n where i < 149999)
    insert into connection select i / 3, (i / 3 * 3 + i % 3 + 1) % 50000, i % 100 from n;
create index part_name on part (name);
create index connection_source on connection (source);
select count(*), sum(x) from part;
-- Every name is there once.
with recursive n(i) as (select 0 union all select i + 1 from n where i < 49999)
    select count(*) from n join part on part.name = printf('part %05d', n.i);
-- How many parts are within seven steps of the first.
with recursive reached(id, depth) as (
    select 0, 0 union select target, depth + 1 from reached join connection on source = id where depth < 7)
    select count(distinct id) from reached;
update part set kind = kind + 10 where x % 2 = 0;
delete from connection where source in (select id from part where kind >= 10);
select kind, count(*) from part group by kind order by kind limit 4;
select count(*) from connection;
