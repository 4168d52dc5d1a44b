create table StringIds(id,value);insert into StringIds values(1,'k<int>()'),(2,'cudaLaunchKernel_v7000');
create table TARGET_INFO_GPU_METRICS(typeId,metricId,metricName);insert into TARGET_INFO_GPU_METRICS values (256,1,'SM Active'),(256,2,'SM Active');
