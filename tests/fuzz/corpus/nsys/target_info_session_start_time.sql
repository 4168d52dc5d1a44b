create table StringIds(id,value);insert into StringIds values(1,'k<int>()'),(2,'cudaLaunchKernel_v7000');
create table TARGET_INFO_SESSION_START_TIME(utcEpochNs);insert into TARGET_INFO_SESSION_START_TIME values (1700000000000000000),(1700000000000000000);
