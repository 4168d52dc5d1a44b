create table StringIds(id,value);insert into StringIds values(1,'k<int>()'),(2,'cudaLaunchKernel_v7000');
create table CUPTI_ACTIVITY_KIND_GRAPH_TRACE(start,end,deviceId,contextId,streamId,correlationId,globalPid,graphId);insert into CUPTI_ACTIVITY_KIND_GRAPH_TRACE values (100,200,1,1,1,1,16777216,1),(101,201,2,2,2,2,16777216,2);
